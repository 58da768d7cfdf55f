package sshtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// KnownHosts writes a known_hosts file with the first host key of each server, and returns its path.
func KnownHosts(t testing.TB, servers ...*Server) string {
	t.Helper()
	var text string
	for _, s := range servers {
		text += knownhosts.Line([]string{s.Addr}, s.HostKey.PublicKey()) + "\n"
	}
	file := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Login returns a profile's login to s as root: with a new key, and with s's host key known. The caller must exclude
// the ssh_config and the SSH agent of the machine that runs the test.
func (s *Server) Login(t testing.TB) profile.SSH {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return profile.SSH{User: "root", Port: s.Port, Identity: file, KnownHosts: KnownHosts(t, s)}
}

// NewKey makes an ed25519 key.
func NewKey(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// Nobody returns the address of a missing server, on a port that stays reserved until the test ends.
func Nobody(t testing.TB) *Server {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", porttest.TCP(t))
	if err != nil {
		t.Fatal(err)
	}
	return &Server{Addr: a.String(), Host: "127.0.0.1", Port: a.Port, HostKey: NewKey(t)}
}
