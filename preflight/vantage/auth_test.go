package vantage

import (
	"bytes"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// serveAgent runs an SSH agent with keys on a socket until the test ends.
func serveAgent(t *testing.T, keys ...any) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: k}); err != nil {
			t.Fatal(err)
		}
	}
	return listenAgent(t, ring)
}

func listenAgent(t *testing.T, ring agent.Agent) string {
	t.Helper()
	tier.NeedsHost(t)
	socket := filepath.Join(t.TempDir(), "agent")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { _ = agent.ServeAgent(ring, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	return socket
}

// only returns a server that accepts one key, and counts the keys offered to it.
func only(t *testing.T, pub ssh.PublicKey) (*sshtest.Server, *atomic.Int64) {
	var shown atomic.Int64
	return sshtest.Start(t, sshtest.Config{Accept: func(_ string, key ssh.PublicKey) bool {
		shown.Add(1)
		return bytes.Equal(key.Marshal(), pub.Marshal())
	}}), &shown
}

func TestAgentAuth(t *testing.T) {
	key, pub := newKeyPair(t)
	s, _ := only(t, pub)
	cfg := configFor(t, s)
	cfg.SSH.Identity, cfg.AgentSocket = "", serveAgent(t, key)
	f := loginFact(within(t, 30*time.Second), open(t, cfg))
	if f.Failure != diag.OK || f.SSH.AuthMethod != "agent" {
		t.Errorf("%q %s %+v", f.Failure, f.Detail, f.SSH)
	}
}

// An encrypted identity is used through the agent that holds it, and alone.
func TestNamedIdentityIsOfferedAlone(t *testing.T) {
	key, pub := newKeyPair(t)
	other1, _ := newKeyPair(t)
	other2, _ := newKeyPair(t)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("secret words"))
	if err != nil {
		t.Fatal(err)
	}
	s, shown := only(t, pub)
	cfg := configFor(t, s)
	cfg.SSH.Identity = writeFile(t, "id", pem.EncodeToMemory(block))

	f := loginFact(within(t, 30*time.Second), open(t, cfg))
	wantFailure(t, f, diag.SSHNoKey, "auth")
	if !strings.Contains(f.Detail, "encrypted") || !strings.Contains(f.Detail, "ssh-add") {
		t.Errorf("detail %q", f.Detail)
	}
	if shown.Load() != 0 {
		t.Errorf("%d keys were shown", shown.Load())
	}

	cfg.AgentSocket = serveAgent(t, other1, other2, key)
	f = loginFact(within(t, 30*time.Second), open(t, cfg))
	if f.Failure != diag.OK || f.SSH.AuthMethod != "agent" {
		t.Errorf("%q %s %+v", f.Failure, f.Detail, f.SSH)
	}
	if shown.Load() > 2 { // one key: a query, and the signature
		t.Errorf("keys were shown %d times", shown.Load())
	}
}

func TestIdentityThatIsNotThere(t *testing.T) {
	s := sshtest.Start(t, sshtest.Config{})
	cfg := configFor(t, s)
	cfg.SSH.Identity = filepath.Join(t.TempDir(), "absent")
	f := loginFact(within(t, 30*time.Second), open(t, cfg))
	wantFailure(t, f, diag.SSHNoKey, "auth")
	if !strings.Contains(f.Detail, "absent") {
		t.Errorf("detail %q", f.Detail)
	}
}

func TestRefusedKeyIsNamed(t *testing.T) {
	_, pub := newKeyPair(t)
	s, _ := only(t, pub)
	cfg := configFor(t, s)
	b, err := os.ReadFile(cfg.SSH.Identity)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := ssh.ParsePrivateKey(b)
	if err != nil {
		t.Fatal(err)
	}
	f := loginFact(within(t, 30*time.Second), open(t, cfg))
	wantFailure(t, f, diag.SSHAuth, "auth")
	if !strings.Contains(f.Detail, ssh.FingerprintSHA256(mine.PublicKey())) || !strings.Contains(f.Detail, "user root") {
		t.Errorf("detail %q", f.Detail)
	}
}

// mute is an agent that lists its keys but never signs, like one that waits for confirmation by its user.
type mute struct {
	agent.Agent
	gone chan struct{}
}

func (m mute) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) {
	<-m.gone
	return nil, net.ErrClosed
}

func TestAgentThatDoesNotSign(t *testing.T) {
	t.Parallel()
	key, pub := newKeyPair(t)
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	s, _ := only(t, pub)
	cfg := configFor(t, s)
	cfg.SSH.Identity, cfg.AgentSocket = "", listenAgent(t, mute{ring, gone})
	t.Cleanup(func() { close(gone) })
	_, facts := inVain(t, cfg, diag.SSHNoKey, "auth")
	wantFailure(t, facts[0], diag.SSHNoKey, "auth")
	if !strings.Contains(facts[0].Detail, "has not signed") {
		t.Errorf("detail %q", facts[0].Detail)
	}
}

// An agent that accepts a connection and does not answer costs its own timeout, not the walk's.
func TestSilentAgent(t *testing.T) {
	tier.NeedsHost(t)
	socket := filepath.Join(t.TempDir(), "agent")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := sshtest.Start(t, sshtest.Config{})
	cfg := configFor(t, s)
	cfg.AgentSocket, cfg.AgentTimeout = socket, 0
	f := loginFact(within(t, 30*time.Second), open(t, cfg))
	if f.Failure != diag.OK || f.SSH.AuthMethod != "key" {
		t.Errorf("%q %s", f.Failure, f.Detail)
	}
}
