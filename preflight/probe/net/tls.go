package net

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// errUnverified ends a handshake whose chain did not verify, before any data was sent over it.
var errUnverified = errors.New("the server's certificate does not verify")

// handshake is the result of one handshake, filled in by its callbacks.
type handshake struct {
	facts *diag.TLSFacts
	word  diag.Failure // the failure of the server's chain
	err   error
	cert  clientCert
}

// secure is the third phase: TLS if the target needs it, and a link in any case. The chain is recorded before it is
// verified, so that a bad one is reported. A connection that does not verify is not used any further, unless the
// request asks for that (TLSLook); then the failure is kept.
func (c *exchange) secure(ctx context.Context) bool {
	if !c.to.secure {
		c.adopt(&link{conn: c.raw, verified: true})
		return true
	}
	key := c.key() // before the files are read: if one changes meanwhile, the connection belongs to the older version
	facts := &diag.TLSFacts{ServerName: c.serverName()}
	c.f.TLS = facts
	trust, err := readTrust(c.req)
	facts.TrustSource, facts.TrustRoots = trust.source, measure.CertInfos(trust.certs, measure.MaxRoots)
	facts.TrustUnread = trust.unread
	if err != nil {
		c.failed(phaseTrust, measure.FileWord(err), err)
		return false
	}
	pair, err := readClientCert(c.req)
	if err != nil {
		c.failed(phaseCert, measure.FileWord(err), err)
		return false
	}

	h := &handshake{facts: facts}
	began := time.Now()
	conn := tls.Client(c.raw, h.config(trust, pair, c.req.TLSLook))
	err = conn.HandshakeContext(ctx)
	facts.DurationMS = since(began)
	if h.cert.requested || err == nil {
		facts.CertRequested = &h.cert.requested
	}
	switch {
	case h.err != nil:
		c.stopped(ctx, phaseTLS, h.word, h.word, h.err)
	case err != nil:
		phase := phaseTLS
		if a, ok := remoteAlert(err); ok {
			phase = alertPhase(a, h.cert)
		}
		c.stopped(ctx, phase, diag.Timeout, handshakeWord(err, h.cert, time.Now()), err)
	}
	if err != nil {
		return false
	}
	c.adopt(&link{conn: conn, key: key, tls: facts, cert: h.cert, verified: h.err == nil})
	return true
}

// adopt makes l the exchange's link over the connection that was opened for it.
func (c *exchange) adopt(l *link) {
	l.raw, l.br, l.tcp, l.whole = c.raw, bufio.NewReader(l.conn), *c.f.TCP, true
	if l.key == (poolKey{}) {
		l.key = c.key()
	}
	c.link, c.raw = l, nil
}

// config returns the handshake's configuration. The library's verification is replaced by an equivalent one in
// VerifyConnection, for two reasons: the chain is needed when verification fails, and so is the precise failure.
func (h *handshake) config(trust trust, pair *tls.Certificate, look bool) *tls.Config {
	return &tls.Config{
		ServerName:         h.facts.ServerName,
		NextProtos:         []string{"http/1.1"},
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(cs tls.ConnectionState) error {
			h.facts.Version = tls.VersionName(cs.Version)
			h.facts.Chain = measure.CertInfos(cs.PeerCertificates, measure.MaxRoots)
			v := verifyChain(cs.PeerCertificates, trust, h.facts.ServerName, time.Now())
			h.word, h.err, h.facts.Flaw = v.word, v.err, v.flaw
			h.facts.Verified = h.err == nil
			if v.misdated != nil {
				h.facts.Misdated = new(measure.CertInfo(v.misdated))
			}
			if h.err != nil && !look {
				return errUnverified
			}
			return nil
		},
		// Never Certificates: crypto/tls would not send a certificate whose issuer the server does not list, and the
		// server's real answer to it would never be seen.
		GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			h.cert.requested = true
			h.facts.AcceptableCAs = subjectNames(r.AcceptableCAs)
			if pair == nil {
				return &tls.Certificate{}, nil
			}
			h.cert.sent, h.cert.notBefore = true, pair.Leaf.NotBefore
			h.facts.CertSent = pair.Leaf.SerialNumber.Text(16)
			return pair, nil
		},
	}
}
