//go:build linux

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/profile"
)

// secretsDir is where the lab keeps its keys and tokens, as its profile says.
func secretsDir(t *testing.T, l *lab.Lab) string {
	t.Helper()
	p, _, err := profile.Load(l.ProfilePath(), profile.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(p.Auth.TokenFile)
}

// secrets are the values that no output may contain: tokens, and the text of private keys.
func secrets(t *testing.T, l *lab.Lab) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(secretsDir(t, l), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch text := strings.TrimSpace(string(data)); {
		case strings.HasSuffix(path, ".token"):
			out = append(out, text)
		case strings.Contains(text, "PRIVATE KEY"):
			for _, line := range strings.Split(text, "\n") {
				if !strings.HasPrefix(line, "-") && len(line) > 20 {
					out = append(out, line)
				}
			}
		}
		return nil
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("no secrets to look for: %v", err)
	}
	return out
}

func marshal(t *testing.T, r *diag.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := render.Report(&b, r, render.Options{Format: "json"}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// staleBundle installs another CA's certificate on the node, as in an old bundle.
func staleBundle(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an older node CA"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	putOn(t, l, machine, "/root/stale.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// expiredCert mints a certificate of a node, signed by the lab's own CA, that expired an hour ago.
func expiredCert(t *testing.T, l *lab.Lab, machine string) {
	t.Helper()
	mintCert(t, l, machine, -25*time.Hour, -time.Hour)
}

// mintCert mints a certificate for machine, signed by the lab's own CA, like the existing one but valid between
// these offsets from now, and stores it in /root/cert.pem and /root/key.pem.
func mintCert(t *testing.T, l *lab.Lab, machine string, from, until time.Duration) {
	t.Helper()
	dir := secretsDir(t, l)
	ca := parseCert(t, filepath.Join(dir, "signing-ca.crt"))
	caKey := parseKey(t, filepath.Join(dir, "signing-ca.key"))
	old, err := readFile(l, machine, "/etc/gpuaas/cert.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(old)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	leaf.NotBefore, leaf.NotAfter, leaf.SerialNumber = time.Now().Add(from), time.Now().Add(until), big.NewInt(4711)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	putOn(t, l, machine, "/root/cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	putOn(t, l, machine, "/root/key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

func put(t *testing.T, l *lab.Lab, path string, data []byte) {
	t.Helper()
	putOn(t, l, node, path, data)
}

func putOn(t *testing.T, l *lab.Lab, machine, path string, data []byte) {
	t.Helper()
	writeFile(t, l, machine, path, data, 0o600)
}

func parseCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parseKey(t *testing.T, path string) any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	if k, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		return k
	}
	k, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
