package discover

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// handshakeTime bounds a connection and its handshake, each.
const handshakeTime = 5 * time.Second

// Server is what a server showed.
type Server struct {
	URL   string
	Error string // why it could not be asked at all; "" if it was

	// Verified says by what its certificate verifies: "the system's roots", or "the accepted CA"; "" if it does not.
	Verified   string
	Unverified string // why its certificate does not verify, without the CA that it presents
	CA         *CA    // what it presents that would make it verify; nil if nothing does
	Issuer     string // the name of a CA that it does not present, if that is what is missing

	Health    string // path of the page that says that it is well; "" if none was found
	HealthNow string // what is wrong with its answer now; "" if nothing is
	Login     string // what asks for a login in place of an answer; "" if nothing does
	Kind      string // the kind of platform that its public pages show, as in a profile; "" if none do
	ReadModel string // what the page about the node answered; "" if it was not asked
	HasNode   bool   // that page describes a node
}

// CA is a certificate that a server presented. Nothing shows that it is the right one.
type CA struct {
	Subject string
	SHA256  string // of the certificate, in hex
	Until   time.Time
	PEM     []byte
}

// inspectServer looks at the certificate, and asks for pages only if that verifies.
func inspectServer(ctx context.Context, base, accept, readModel string, token diag.Secret) *Server {
	s := &Server{URL: base}
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		s.Error = fmt.Sprintf("%q is no URL of a server", base)
		return s
	}
	p := pages{base: u}
	if u.Scheme == "https" {
		presented, err := handshake(ctx, u)
		if err != nil {
			s.Error = err.Error()
			return s
		}
		if p.roots = s.verify(presented, u.Hostname(), accept); s.Verified == "" {
			return s
		}
	} else {
		token = diag.Secret{} // it would be readable on the way
	}
	s.ask(ctx, p, readModel, token)
	return s
}

// handshake returns the certificates that a server presents, its own first. They are looked at, and nothing is sent
// over this connection.
func handshake(ctx context.Context, u *url.URL) ([]*x509.Certificate, error) {
	address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
	dial, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(dial, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	shake, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	conn := tls.Client(raw, &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: true})
	// TLS 1.3 ends a client's handshake before a server's refusal arrives: what is presented is known all the same.
	if err := conn.HandshakeContext(shake); err != nil {
		if shake.Err() != nil {
			return nil, fmt.Errorf("%s accepts connections, and does not answer a TLS handshake", address)
		}
		return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
	}
	return conn.ConnectionState().PeerCertificates, nil
}

// verify judges a chain, and returns the roots by which it verifies; nil are the system's.
func (s *Server) verify(chain []*x509.Certificate, name, accept string) *x509.CertPool {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: name, Intermediates: between})
	if err == nil {
		s.Verified = "the system's roots"
		return nil
	}
	s.Unverified = err.Error()
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		return nil // a date or a name, which no CA mends
	}
	top := candidate(chain)
	if top == nil {
		s.Issuer = chain[len(chain)-1].Issuer.String()
		return nil
	}
	roots := x509.NewCertPool()
	roots.AddCert(top)
	if _, err := chain[0].Verify(x509.VerifyOptions{DNSName: name, Intermediates: between, Roots: roots}); err != nil {
		s.Unverified = err.Error()
		return nil
	}
	sum := sha256.Sum256(top.Raw)
	s.CA = &CA{Subject: top.Subject.String(), SHA256: hex.EncodeToString(sum[:]), Until: top.NotAfter,
		PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: top.Raw})}
	if accept != s.CA.SHA256 {
		return nil
	}
	s.Verified, s.Unverified = "the accepted CA", ""
	return roots
}

// candidate returns the certificate of a chain that an operator could trust: the last CA, or a server's own that is
// signed by itself.
func candidate(chain []*x509.Certificate) *x509.Certificate {
	for i := len(chain) - 1; i > 0; i-- {
		if chain[i].IsCA {
			return chain[i]
		}
	}
	if own := chain[0]; own.CheckSignatureFrom(own) == nil || own.Issuer.String() == own.Subject.String() {
		return own
	}
	return nil
}
