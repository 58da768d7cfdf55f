package probe

import (
	"bufio"
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
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
	facts.TrustSource, facts.TrustRoots = trust.source, certInfos(trust.certs, maxRoots)
	if err != nil {
		c.failed(phaseTrust, fileWord(err), err)
		return false
	}
	pair, err := readClientCert(c.req)
	if err != nil {
		c.failed(phaseCert, fileWord(err), err)
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
			h.facts.Chain = certInfos(cs.PeerCertificates, maxRoots)
			h.word, h.err = verifyChain(cs.PeerCertificates, trust.roots, h.facts.ServerName, time.Now())
			h.facts.Verified = h.err == nil
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

// maxPEM bounds the size of a certificate or key file.
const maxPEM = 1 << 20

// cert checks the credential pair Cert and Key; the key is compared here and never leaves this machine. Failures:
// file_missing, file_unreadable, file_unparseable, file_mismatch (the key belongs to another certificate),
// mtls_cert_not_yet_valid, mtls_cert_expired. A certificate of another node is not a failure here: NodeBound shows it.
func (p *Prober) cert(_ context.Context, req diag.Request, f *diag.Fact) {
	text, err := readPEM(req.Cert)
	if err != nil {
		fail(f, "cert", fileWord(err), err)
		return
	}
	chain, err := parseCerts(text)
	if err != nil {
		fail(f, "cert", diag.FileUnparseable, fmt.Errorf("%s: %w", req.Cert, err))
		return
	}
	leaf := chain[0]
	f.Cert = &diag.CertFacts{Leaf: certInfo(leaf)}
	if more := certInfos(chain[1:], maxRoots-1); len(more) > 0 {
		f.Cert.Chain = more
	}
	var bound bool
	if f.Cert.BoundTo, bound = nodeBinding(leaf, req.NodeID); req.NodeID != "" {
		f.Cert.NodeBound = &bound
	}
	if req.Key != "" && !checkKey(leaf, req.Key, f) {
		return
	}
	if pid := p.Agent.PID; pid > 0 {
		f.Cert.DeniedFile, f.Cert.DeniedUID = deniedTo(pid, req.Cert, req.Key)
	}
	switch now := time.Now(); {
	case now.Before(leaf.NotBefore):
		fail(f, "dates", diag.MTLSCertNotYetValid,
			fmt.Errorf("%s is not valid before %s", req.Cert, f.Cert.Leaf.NotBefore.Format(diag.TimeLayout)))
	case now.After(leaf.NotAfter):
		fail(f, "dates", diag.MTLSCertExpired,
			fmt.Errorf("%s is not valid after %s", req.Cert, f.Cert.Leaf.NotAfter.Format(diag.TimeLayout)))
	}
}

// checkKey compares the key file with the certificate; it returns false if f has failed.
func checkKey(leaf *x509.Certificate, file string, f *diag.Fact) bool {
	text, err := readPEM(file)
	if err != nil {
		fail(f, "key", fileWord(err), err)
		return false
	}
	public, err := publicOf(text)
	if err != nil {
		// The parser's own text may quote what it read.
		fail(f, "key", diag.FileUnparseable, fmt.Errorf("%s holds no private key that can be read", file))
		return false
	}
	matches := public.Equal(leaf.PublicKey)
	f.Cert.KeyMatches = &matches
	if !matches {
		fail(f, "key", diag.FileMismatch, fmt.Errorf("%s is not the key of this certificate", file))
	}
	return matches
}

// readPEM reads a small regular file. It never blocks on other types of files.
func readPEM(name string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, &os.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")})
	}
	text, err := io.ReadAll(io.LimitReader(file, maxPEM+1))
	if err == nil && len(text) > maxPEM {
		err = &os.PathError{Op: "read", Path: name, Err: fmt.Errorf("longer than %d bytes", maxPEM)}
	}
	return text, err
}

// publicOf returns the public half of the first private key in a PEM text.
func publicOf(text []byte) (interface{ Equal(crypto.PublicKey) bool }, error) {
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		var key any
		var err error
		switch b.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(b.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, errUnparseable
		}
		public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
		if !ok {
			return nil, errUnparseable
		}
		return public, nil
	}
	return nil, errUnparseable
}

// nodeBinding returns the node that a certificate names: node itself if the subject, a DNS name or the last element of
// a URI equals it, else what it names instead (a URI, the subject, a DNS name).
func nodeBinding(c *x509.Certificate, node string) (string, bool) {
	var names []string
	for _, u := range c.URIs {
		names = append(names, path.Base(u.Path))
		if u.Path == "" {
			names[len(names)-1] = u.Opaque
		}
	}
	names = append(names, c.Subject.CommonName)
	names = append(names, c.DNSNames...)
	first := ""
	for _, n := range names {
		if n == node && node != "" {
			return node, true
		}
		first = cmp.Or(first, n)
	}
	return first, false
}
