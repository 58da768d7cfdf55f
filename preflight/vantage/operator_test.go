package vantage

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// refusing is an agent that lists its keys and refuses to sign.
type refusing struct{ agent.Agent }

func (refusing) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) {
	return nil, errors.New("denied by its owner")
}

// newAgent is an agent that holds n keys.
func newAgent(t *testing.T, n int) agent.Agent {
	t.Helper()
	ring := agent.NewKeyring()
	for range n {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	return ring
}

// TestOperatorsOwn: each failure on the operator's side, which ends a login before the node's answer could matter, has
// its own word, never one of the node's.
func TestOperatorsOwn(t *testing.T) {
	tier.NeedsHost(t)
	t.Setenv("HOME", t.TempDir()) // without keys, and without known hosts
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, tc := range []struct {
		name, text string
		do         func(t *testing.T, s *sshtest.Server, cfg *NodeConfig)
		word       diag.Failure
	}{
		{"no key at all", "no key to offer", func(_ *testing.T, _ *sshtest.Server, c *NodeConfig) { c.SSH.Identity = "" },
			diag.SSHNoKey},
		{"no agent behind the socket", "does not answer", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.Identity, c.AgentSocket = "", filepath.Join(t.TempDir(), "gone")
		}, diag.SSHNoKey},
		{"an agent without keys", "no key to offer", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.Identity, c.AgentSocket = "", listenAgent(t, agent.NewKeyring())
		}, diag.SSHNoKey},
		{"an agent that refuses to sign", "did not sign", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.Identity, c.AgentSocket = "", listenAgent(t, refusing{newAgent(t, 1)})
		}, diag.SSHNoKey},
		{"the key file is a folder", "reading identity", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.Identity = t.TempDir()
		}, diag.SSHNoKey},
		{"the key file is no key", "cannot be read", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.Identity = writeFile(t, "id", []byte("no key"))
		}, diag.SSHNoKey},
		{"known_hosts is empty", "accepted yet", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.KnownHosts = writeFile(t, "known_hosts", nil)
		}, diag.SSHHostKeyUnknown},
		{"known_hosts is not there", "does not exist", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.KnownHosts = filepath.Join(t.TempDir(), "gone")
		}, diag.SSHHostKeyUnknown},
		{"known_hosts is garbage", "known_hosts:1: ", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.KnownHosts = writeFile(t, "known_hosts", []byte("host ssh-ed25519 %%%\n"))
		}, diag.SSHHostKeyUnknown},
		{"known_hosts is a folder", "known host keys", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.KnownHosts = t.TempDir()
		}, diag.SSHSetup},
		{"ssh_config is a folder", "ssh_config", func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.ConfigFile = t.TempDir()
		}, diag.SSHSetup},
		{"the ProxyCommand is not there", "config:2) gave no SSH server: it ended (exit status 127): ",
			func(t *testing.T, _ *sshtest.Server, c *NodeConfig) {
				c.ConfigFile = writeFile(t, "config", []byte("Host *\n  ProxyCommand /nonexistent/nc %h %p\n"))
			}, diag.SSHJump},
		{"no host", "no host to dial", func(_ *testing.T, _ *sshtest.Server, c *NodeConfig) { c.Host = "" }, diag.SSHSetup},
		{"a jump host without a name", "jump host", func(_ *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.Jump = "ops@"
		}, diag.SSHSetup},
		{"a jump host that is not there", "at jump host", func(_ *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.Jump = "127.0.0.1:1"
		}, diag.SSHJump},
		{"a jump host that says nothing", "at jump host", func(_ *testing.T, _ *sshtest.Server, c *NodeConfig) {
			c.SSH.Jump, c.ConnectTimeout = silent.Addr().String(), 5*time.Second
		}, diag.SSHJump},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := sshtest.Start(t, sshtest.Config{})
			cfg := configFor(t, s)
			tc.do(t, s, &cfg)
			f := loginFact(within(t, 30*time.Second), open(t, cfg))
			if f.Failure != tc.word || !f.Failure.Operator() || !strings.Contains(f.Detail, tc.text) {
				t.Errorf("%q at %s, want %q, and %q in %q", f.Failure, f.Phase, tc.word, tc.text, f.Detail)
			}
			if s.Logins() != 0 {
				t.Error("somebody logged in")
			}
		})
	}
}

// TestJumpIsWaitedFor: a timeout while a jump host is silent is not attributed to the node.
func TestJumpIsWaitedFor(t *testing.T) {
	tier.NeedsHost(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cfg := configFor(t, sshtest.Start(t, sshtest.Config{}))
	cfg.SSH.Jump = silent.Addr().String()
	_, facts := inVain(t, cfg, diag.SSHJump, "banner")
	wantFailure(t, facts[0], diag.SSHJump, "banner")
}

// TestKeysThatWereNotOffered: if a server refuses some keys, the failure says that others were not offered.
func TestKeysThatWereNotOffered(t *testing.T) {
	for name, tc := range map[string]struct {
		do    func(t *testing.T, c *NodeConfig)
		tries int
		want  int
	}{
		"all were": {do: func(*testing.T, *NodeConfig) {}},
		"too many": {do: func(t *testing.T, c *NodeConfig) {
			c.SSH.Identity, c.AgentSocket = "", listenAgent(t, newAgent(t, 7))
		}, want: 1},
		"more than the server allows": {do: func(t *testing.T, c *NodeConfig) {
			c.SSH.Identity, c.AgentSocket = "", listenAgent(t, newAgent(t, maxOffered))
		}, tries: 2, want: 1},
		"an agent that is gone": {do: func(t *testing.T, c *NodeConfig) {
			c.AgentSocket = filepath.Join(t.TempDir(), "gone")
		}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			s := sshtest.Start(t, sshtest.Config{Tries: tc.tries})
			s.Set(sshtest.RejectAuth)
			cfg := configFor(t, s)
			tc.do(t, &cfg)
			f := loginFact(within(t, 30*time.Second), open(t, cfg))
			wantFailure(t, f, diag.SSHAuth, "auth")
			if f.SSH.NotOffered != tc.want {
				t.Errorf("%d not offered, want %d: %s", f.SSH.NotOffered, tc.want, f.Detail)
			}
		})
	}
}

// TestEmptyHostIsNeverDialled: the network would take an empty name for this machine.
func TestEmptyHostIsNeverDialled(t *testing.T) {
	tier.NeedsHost(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cfg := configFor(t, sshtest.Start(t, sshtest.Config{}))
	cfg.Host, cfg.SSH.Port = "", ln.Addr().(*net.TCPAddr).Port
	cfg.ConfigFile = writeFile(t, "config", fmt.Appendf(nil, "Host *\n  User root\n"))
	ctx := within(t, 10*time.Second)
	f := loginFact(ctx, open(t, cfg))
	wantFailure(t, f, diag.SSHSetup, "config")
	if _, err := TrustFirstKey(ctx, cfg); !errors.Is(err, errNoHost) {
		t.Errorf("trust: %v", err)
	}
	_ = ln.(*net.TCPListener).SetDeadline(time.Now().Add(200 * time.Millisecond))
	if c, err := ln.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("somebody dialled: %v %v", c, err)
	}
}
