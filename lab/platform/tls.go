package platform

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform/gateway"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/lab/platform/web"
)

// terminalTLS returns the TLS configuration of the node terminal, which terminates mutual TLS itself: a bad
// certificate gets a TLS alert.
func (p *Platform) terminalTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{p.pki.terminal},
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  p.pki.terminalPool, NextProtos: []string{"http/1.1"}, // websockets need it
	}
}

// handshakeFailed records a node that was rejected by TLS, since it never reaches a handler.
func (p *Platform) handshakeFailed(remote string, err error) {
	p.log.Warn("TLS handshake failed", "listener", "node_terminal", "remote", remote, "error", err)
	now, host := p.now(), remote
	if h, _, err := net.SplitHostPort(remote); err == nil {
		host = h
	}
	count, keep := p.denials.count(denialKind{remote: host, code: store.HandshakeFailed}, nodeRows, now,
		seconds(p.cfg.Policy.AuditDedupeWindow))
	if !keep { // anybody can connect
		return
	}
	e := store.Evidence{At: now, Kind: store.HandshakeFailed,
		Detail: map[string]any{"listener": "node_terminal", "remote": remote, "error": err.Error()}}
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

// describe adds the subject and issuer of a rejected certificate, marked as unverified claims.
func describe(e *store.Evidence, c *x509.Certificate) {
	e.Detail["claimed_subject"] = web.Clipped(c.Subject.CommonName)
	e.Detail["claimed_serial"] = serialText(c)
	e.Detail["claimed_issuer"] = c.Issuer.String()
	e.Detail["claimed_not_after"] = c.NotAfter.UTC()
}

// recallTrust restores the trust state that the previous process recorded, so that a repair by a restart is
// recorded as well.
func (p *Platform) recallTrust(ctx context.Context) error {
	var newest [2]int64
	for i, kind := range []string{store.TrustRestored, store.TrustMismatch} {
		rows, err := p.store.Recent(ctx, kind, 1)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			newest[i] = rows[0].At.UnixMilli()
		}
	}
	p.mistrusted = newest[1] > newest[0]
	return nil
}

// checkTrust checks whether the node ingress trusts the CA that signs node certificates. If it does not, it logs
// an error at each start and on each change; it writes evidence of each change. It must not run concurrently.
func (p *Platform) checkTrust(ctx context.Context, starting bool) {
	t := p.pki.trust()
	for _, e := range t.Errors {
		p.log.Error("trust check", "error", e)
	}
	if t.IngressTrustsSigningCA == nil {
		return
	}
	mismatch := !*t.IngressTrustsSigningCA
	if mismatch && (starting || !p.mistrusted) {
		p.log.Error("node ingress does not trust the signing CA: it will reject every certificate issued now; repair that "+
			"before any node is enrolled again",
			"signing_ca", t.SigningCA, "ingress_cas", t.IngressCAs)
	}
	if mismatch == p.mistrusted {
		return
	}
	kind := store.TrustMismatch
	if !mismatch {
		kind = store.TrustRestored
		p.log.Info("node ingress trusts the signing CA again", "signing_ca", t.SigningCA)
	}
	err := p.store.Record(ctx, store.Evidence{At: p.now(), Kind: kind, CorrelationID: store.NewID("trust-"),
		Detail: map[string]any{"signing_ca": t.SigningCA, "ingress_cas": t.IngressCAs}})
	if err != nil {
		p.log.Error("record evidence", "error", err) // and again at the next look
		return
	}
	p.mistrusted = mismatch
}
