package platformtest

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// ServerFiles writes a key pair for a test's own server, signed by CAPEM and for the names of the platform's
// servers. both contains the certificate and the key in one file.
func (p *Platform) ServerFiles() (cert, key, both string) {
	p.tb.Helper()
	c, k := p.ca.issue(p.tb, serverTemplate("gpuaas test server"))
	return p.write("server.pem", c), p.write("server.key", k),
		p.write("server-both.pem", append(append([]byte{}, c...), k...))
}

// IngressSecret returns the secret for a test's own node ingress.
func (p *Platform) IngressSecret() diag.Secret { return p.Ingress.secret }

// RevocationFile writes a revocation list of the signing CA that contains one serial.
func (p *Platform) RevocationFile(serial *big.Int) string {
	p.tb.Helper()
	now := time.Now()
	list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(time.Hour),
		RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: serial, RevocationTime: now.Add(-time.Minute)}},
	}, p.nodeCA.cert, p.nodeCA.key)
	if err != nil {
		p.tb.Fatal(err)
	}
	return p.write("revoked.pem", pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list}))
}
