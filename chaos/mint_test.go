package chaos

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"
)

func parsed(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("no PEM: %q", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMint(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	own, err := stranger(now)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(own.cert)
	verify := func(c *x509.Certificate) error {
		_, err := c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
	for _, tc := range []struct {
		as, node string
		good     bool
	}{{"renewed", "n1", true}, {"expired", "n1", false}, {"not-yet-valid", "n1", false},
		{"wrong-node", "somebody-else", true}, {"wrong-ca", "n1", false}} {
		m := (&certParams{As: tc.as}).mint("n1")
		made, err := m.Make(own, now)
		if err != nil {
			t.Fatal(err)
		}
		c := parsed(t, made.Text)
		if c.Subject.CommonName != tc.node || c.URIs[0].String() != "gpuaas:node:"+tc.node ||
			c.Subject.OrganizationalUnit[0] != DrillUnit {
			t.Errorf("%s: subject %s, %s", tc.as, c.Subject, c.URIs)
		}
		if err := verify(c); (err == nil) != tc.good {
			t.Errorf("%s verifies: %v", tc.as, err)
		}
		if _, err := tls.X509KeyPair([]byte(made.Text), []byte(made.Key)); err != nil {
			t.Errorf("%s: %v", tc.as, err)
		}
	}
	if _, err := (&certParams{As: "expired"}).mint("n1").Make(nil, now); err == nil {
		t.Error("a certificate is signed by nobody")
	}
	ca, err := Mint{What: MintCA}.Make(nil, now)
	if err != nil || parsed(t, ca.Text).Subject.CommonName != StrangerName {
		t.Errorf("%v", err)
	}
	if _, err := (Mint{What: MintToken, Node: "n1"}).Make(own, now); err == nil {
		t.Error("a token is made here")
	}
}
