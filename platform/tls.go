package platform

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/gpuaas/gpuaasctl/platform/gateway"
	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/platform/web"
)

// terminalTLS is how the node terminal ends mutual TLS itself: a bad certificate gets a TLS alert.
func (p *Platform) terminalTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{p.pki.terminal}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: p.pki.terminalPool, NextProtos: []string{"http/1.1"}, // websockets need it
	}
}

// handshakeFailed keeps a node that was turned away in TLS visible: it never reaches a handler.
func (p *Platform) handshakeFailed(remote string, err error) {
	p.log.Warn("TLS handshake failed", "listener", "node_terminal", "remote", remote, "error", err)
	now, host := p.now(), remote
	if h, _, err := net.SplitHostPort(remote); err == nil {
		host = h
	}
	count, keep := p.denials.take(denialKind{remote: host, code: store.HandshakeFailed}, nodeRows, now, seconds(p.cfg.Policy.AuditDedupeWindow))
	if !keep { // anybody can connect
		return
	}
	e := store.Evidence{At: now, Kind: store.HandshakeFailed, Detail: map[string]any{"listener": "node_terminal", "remote": remote, "error": err.Error()}}
	if count > 1 {
		e.Detail["count"] = count
	}
	var rejected *tls.CertificateVerificationError
	if errors.As(err, &rejected) && len(rejected.UnverifiedCertificates) > 0 {
		describe(&e, rejected.UnverifiedCertificates[0])
	}
	var tooMany *gateway.TooManyError
	if errors.As(err, &tooMany) {
		describe(&e, tooMany.Certificate)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := p.store.Record(ctx, e); err != nil {
		p.log.Error("record evidence", "error", err)
	}
}

// describe adds who a rejected certificate says it is; unverified words, marked so.
func describe(e *store.Evidence, c *x509.Certificate) {
	e.Detail["claimed_subject"] = web.Clipped(c.Subject.CommonName)
	e.Detail["claimed_serial"] = serialText(c)
	e.Detail["claimed_issuer"] = c.Issuer.String()
	e.Detail["claimed_not_after"] = c.NotAfter.UTC()
}
