package openssh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func newSigner(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func text(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }

// TestBadLinesAreSkipped: whatever one line is, the good line behind it counts, and the bad one is named.
func TestBadLinesAreSkipped(t *testing.T) {
	key := newSigner(t).PublicKey()
	for _, bad := range []string{"gone ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA", "gone ssh-dss AAAAB3NzaC1kc3MAAACBAP",
		"old 1024 35 1245678901234567890123456789", "@cert-authority", "@foreign * " + text(key),
		"@revoked @cert-authority * " + text(key), "<<<<<<< HEAD", "=======", "gone", "gone ssh-ed25519", "gone nosuch AAAA",
		"gone ssh-rsa " + strings.Fields(text(key))[1], "|1|x|y " + text(key), "gone ssh-ed25519 ====",
		strings.Repeat("x", 1<<17), "gone # " + text(key)} {
		h := &Hosts{}
		h.Add("known", []byte(bad+"\nnode "+text(key)+"\n"))
		if status, _ := Compare(h.For("node"), key); status != OK {
			t.Errorf("%.40q: the line behind it has status %d", bad, status)
		}
		if len(h.Skipped) != 1 || !strings.HasPrefix(h.Skipped[0], "known:1: ") || len(h.Skipped[0]) > 200 {
			t.Errorf("%.40q: %q", bad, h.Skipped)
		}
	}
	h := &Hosts{}
	h.Add("known", bytes.Repeat([]byte("bad\n"), 1000))
	if len(h.Skipped) != maxSkipped || h.Skipped[maxSkipped-1] != "and 993 more lines" {
		t.Errorf("%q", h.Skipped)
	}
}

// TestNamesOfHosts: patterns, hashed names, and names without regard to case.
func TestNamesOfHosts(t *testing.T) {
	key := newSigner(t).PublicKey()
	hashed := knownhosts.HashHostname("[node]:2200")
	for names, want := range map[string]bool{"[node]:2200": true, "[NODE]:2200": true, "*": true, "[n?de]:*": true,
		"other,[node]:2200": true, "*,![node]:2200": false, "![node]:2200": false, "node": false, "[node]:22": false,
		hashed: true, knownhosts.HashHostname("node"): false, hashed + ",x": false} {
		h := &Hosts{}
		h.Add("k", []byte(names+" "+text(key)+"\n"))
		if got := len(h.For("[node]:2200")) == 1; got != want {
			t.Errorf("%s: %t, want %t", names, got, want)
		}
	}
}

// krlOf makes a list with one section.
func krlOf(kind byte, section []byte) []byte {
	b := []byte(krlMagic)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = append(b, make([]byte, 24+8)...)
	b = append(b, kind)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(section))), section...)
}

func lengthed(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
	}
	return b
}

// TestRevokedKeys: a key in a list is revoked in each of its forms, and a list that is not understood is an error.
func TestRevokedKeys(t *testing.T) {
	key, authority := newSigner(t), newSigner(t)
	cert := &ssh.Certificate{Key: key.PublicKey(), Serial: 70, CertType: ssh.HostCert, KeyId: "host",
		ValidPrincipals: []string{"node"}}
	if err := cert.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	blob, ca := key.PublicKey().Marshal(), authority.PublicKey().Marshal()
	sum := sha256.Sum256(blob)
	number := func(n ...uint64) (b []byte) {
		for _, n := range n {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		return b
	}
	of := func(ca []byte, kind byte, part []byte) []byte {
		return krlOf(krlCertificates, append(append(lengthed(ca, nil), kind), lengthed(part)...))
	}
	for name, tc := range map[string]struct {
		list      []byte
		key, cert string // no, yes, or error
	}{
		"text":                {[]byte("# a list\n\n" + text(key.PublicKey()) + " comment\n"), "yes", "yes"},
		"text of authorities": {[]byte(text(authority.PublicKey())), "no", "yes"},
		"text of others":      {[]byte(text(newSigner(t).PublicKey()) + "\n"), "no", "no"},
		"garbage":             {[]byte("garbage\n"), "error", "error"},
		"empty":               {nil, "no", "no"},
		"key":                 {krlOf(krlKeys, lengthed(blob)), "yes", "yes"},
		"key of others":       {krlOf(krlKeys, lengthed(blob[1:])), "no", "no"},
		"digest":              {krlOf(krlSHA256, lengthed(sum[:])), "yes", "yes"},
		"authority":           {krlOf(krlKeys, lengthed(ca)), "no", "yes"},
		"serial":              {of(ca, krlSerials, number(1, 70)), "no", "yes"},
		"serial of any":       {of(nil, krlSerials, number(70)), "no", "yes"},
		"serial of another":   {of(blob, krlSerials, number(70)), "no", "no"},
		"another serial":      {of(ca, krlSerials, number(71)), "no", "no"},
		"range":               {of(ca, krlRange, number(60, 80)), "no", "yes"},
		"bitmap":              {of(ca, krlBitmap, append(number(64), lengthed([]byte{0x40})...)), "no", "yes"},
		"bitmap of others":    {of(ca, krlBitmap, append(number(64), lengthed([]byte{0x3f})...)), "no", "no"},
		"id":                  {of(ca, krlID, lengthed([]byte("host"))), "no", "yes"},
		"unknown section":     {krlOf(99, nil), "error", "error"},
		"unknown in section":  {of(ca, 0x77, nil), "error", "error"},
		"extension":           {krlOf(krlOther, append(lengthed([]byte("x")), 0, 0, 0, 0, 0)), "no", "no"},
		"critical extension":  {krlOf(krlOther, append(lengthed([]byte("x")), 1, 0, 0, 0, 0)), "error", "error"},
		"cut":                 {krlOf(krlKeys, lengthed(blob))[:60], "error", "error"},
	} {
		file := filepath.Join(t.TempDir(), "revoked")
		if err := os.WriteFile(file, tc.list, 0o600); err != nil {
			t.Fatal(err)
		}
		for want, k := range map[*string]ssh.PublicKey{&tc.key: key.PublicKey(), &tc.cert: cert} {
			revoked, err := IsRevoked(file, k)
			got := map[bool]string{true: "yes", false: "no"}[revoked]
			if err != nil {
				got = "error"
			}
			if got != *want {
				t.Errorf("%s: %T is revoked: %s, want %s (%v)", name, k, got, *want, err)
			}
		}
	}
	if _, err := IsRevoked(filepath.Join(t.TempDir(), "absent"), cert); err == nil {
		t.Error("a list that is not there revokes nothing")
	}
}
