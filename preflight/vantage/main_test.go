package vantage

import (
	"context"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
	"golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) {
	sshtest.HelperMain()
	leaktest.Main(m)
}

// identity writes a new private key file and returns its path and public key.
func identity(t testing.TB) (string, ssh.PublicKey) {
	t.Helper()
	key, pub := newKeyPair(t)
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "id", pem.EncodeToMemory(block)), pub
}

func writeFile(t testing.TB, name string, b []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// configFor returns a configuration that logs in to s as root, with its own key and known_hosts file, and an installed
// helper.
func configFor(t testing.TB, s *sshtest.Server) NodeConfig {
	t.Helper()
	return NodeConfig{
		ID: "node-1", Host: s.Host, ConfigFile: "none", AgentSocket: "none", ConnectTimeout: 30 * time.Second,
		HelloTimeout: 30 * time.Second, AgentTimeout: 30 * time.Second,
		SSH: s.Login(t), HelperDirs: ours(t),
		Agent: profile.Agent{Binary: sshtest.Helper(t), Unit: "none.service", EnvFile: "/nonexistent"},
	}
}

// open returns a node that is closed with the test. On a busy machine Close may give up on what ends a moment later;
// what never ends is a leak.
func open(t testing.TB, cfg NodeConfig) *Node {
	t.Helper()
	n := NewNode(cfg)
	t.Cleanup(func() {
		began := time.Now()
		if err := n.Close(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("closing: %v", err)
		}
		if took := time.Since(began); took > 20*closeTimeout {
			t.Errorf("Close took %s", took)
		}
	})
	return n
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// inVain sends a request that is never answered, and returns the resulting fact. A busy machine may need more time to
// reach the phase in question, and gets it.
func inVain(t testing.TB, cfg NodeConfig, word diag.Failure, phase string,
	reqs ...diag.Request) (n *Node, facts []diag.Fact) {
	t.Helper()
	for _, patience := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second} {
		n = open(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		facts = n.Probe(ctx, append([]diag.Request{{ID: "login", Op: diag.OpSSH}}, reqs...))
		cancel()
		if facts[0].Phase == phase && facts[0].Failure == word {
			break
		}
	}
	return n, facts
}

// loginFact requests only the login.
func loginFact(ctx context.Context, n *Node) diag.Fact {
	return n.Probe(ctx, []diag.Request{{ID: "login", Op: diag.OpSSH}})[0]
}

func wantFailure(t testing.TB, f diag.Fact, word diag.Failure, phase string) {
	t.Helper()
	if f.Failure != word || f.Phase != phase {
		t.Fatalf("got %q in phase %q, want %q in %q; detail: %s", f.Failure, f.Phase, word, phase, f.Detail)
	}
	if f.Detail == "" {
		t.Error("a failure without a detail")
	}
}
