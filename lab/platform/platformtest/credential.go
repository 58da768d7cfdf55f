package platformtest

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// Credential is a node's identity as files in one folder, laid out like /etc/gpuaas.
type Credential struct {
	NodeID   string
	Dir      string
	CertFile string // Dir/cert.pem
	KeyFile  string // Dir/key.pem
	CAFile   string // Dir/ca-bundle.crt
	Pair     tls.Certificate
}

// Enroll enrolls the node as an agent does: with its token and a CSR through the ingress. It consumes the token,
// so it works once per node.
func (p *Platform) Enroll(nodeID string) Credential {
	p.tb.Helper()
	return p.EnrollWith(nodeID, "instance-of-"+nodeID, p.tokens[nodeID].Reveal())
}

// EnrollWith is Enroll for a given host and token.
func (p *Platform) EnrollWith(nodeID, instance, token string) Credential {
	p.tb.Helper()
	key := newKey(p.tb)
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: nodeID}}, key)
	if err != nil {
		p.tb.Fatal(err)
	}
	in := wire.EnrollRequest{NodeID: nodeID, NodeInstanceID: instance,
		CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))}
	var out wire.EnrollResponse
	status, _ := p.call(p.client, http.MethodPost, p.NodeAPIURL+wire.PathEnroll,
		[]string{"Authorization", "Bearer " + token}, in, &out)
	if status != http.StatusOK {
		p.tb.Fatalf("enroll %s: status %d", nodeID, status)
	}
	return p.credential(nodeID, []byte(out.Certificate), keyPEM(p.tb, key), []byte(out.CABundle))
}

// IssueOptions describe a credential that the platform did not issue; the zero value gives a valid one.
type IssueOptions struct {
	NotBefore, NotAfter time.Time
	OtherCA             bool   // signed by an unknown CA
	CommonName          string // in place of the node id
}

// Issue creates a credential without the platform: an expired one, one of another CA, or one for another node.
func (p *Platform) Issue(nodeID string, o IssueOptions) Credential {
	p.tb.Helper()
	ca := p.nodeCA
	if o.OtherCA {
		ca = newAuthority(p.tb, "gpuaas test strangers")
	}
	name := nodeID
	name = cmp.Or(o.CommonName, name)
	cert, key := ca.issue(p.tb, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, URIs: []*url.URL{{Scheme: "gpuaas", Opaque: "node:" + name}},
		NotBefore: o.NotBefore, NotAfter: o.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return p.credential(nodeID, cert, key, p.ca.pem)
}

func (p *Platform) credential(nodeID string, cert, key, ca []byte) Credential {
	p.tb.Helper()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		p.tb.Fatal(err)
	}
	dir := p.tb.TempDir()
	c := Credential{NodeID: nodeID, Dir: dir, CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile: filepath.Join(dir, "key.pem"), CAFile: filepath.Join(dir, "ca-bundle.crt"), Pair: pair}
	for path, b := range map[string][]byte{c.CertFile: cert, c.KeyFile: key, c.CAFile: ca} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			p.tb.Fatal(err)
		}
	}
	return c
}

// TLS returns a client configuration that trusts the platform's servers and presents the credential (nil: none),
// whatever CAs the server lists.
func (p *Platform) TLS(c *Credential) *tls.Config {
	cfg := &tls.Config{RootCAs: p.ca.pool(), MinVersion: tls.VersionTLS12}
	if c != nil {
		pair := c.Pair
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return cfg
}

// NodeClient returns an HTTP client with a node's credential; its connections are closed at the end of the test.
func (p *Platform) NodeClient(c Credential) *http.Client {
	client := p.newClient(&c)
	p.tb.Cleanup(client.CloseIdleConnections)
	return client
}

func (p *Platform) newClient(c *Credential) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: p.TLS(c)}}
}
