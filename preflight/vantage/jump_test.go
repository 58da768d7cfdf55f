package vantage

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
)

// throughJump returns a configuration for node behind the jump hosts.
func throughJump(t *testing.T, node *sshtest.Server, jumps ...*sshtest.Server) NodeConfig {
	t.Helper()
	cfg := configFor(t, node)
	var hops []string
	for _, j := range jumps {
		hops = append(hops, fmt.Sprintf("ops@%s", j.Addr))
	}
	cfg.SSH.Jump = strings.Join(hops, ",")
	cfg.SSH.KnownHosts = sshtest.KnownHosts(t, append([]*sshtest.Server{node}, jumps...)...)
	return cfg
}

func TestProxyJump(t *testing.T) {
	node := sshtest.Start(t, sshtest.Config{})
	near, far := sshtest.Start(t, sshtest.Config{Forward: true}), sshtest.Start(t, sshtest.Config{Forward: true})
	for name, jumps := range map[string][]*sshtest.Server{"one": {near}, "two": {near, far}} {
		t.Run(name, func(t *testing.T) {
			n := open(t, throughJump(t, node, jumps...))
			facts := n.Probe(within(t, 30*time.Second), []diag.Request{{Op: diag.OpSSH}, {Op: diag.OpClock}})
			for _, f := range facts {
				if f.Failure != diag.OK {
					t.Errorf("%s: %q at %s: %s", f.Request.Op, f.Failure, f.Phase, f.Detail)
				}
			}
			if got := facts[0].SSH.Jump; !strings.HasPrefix(got, "ops@"+near.Addr) {
				t.Errorf("jump %q", got)
			}
			if how := n.Info().How; !strings.Contains(how, " through ops@"+near.Addr) {
				t.Errorf("how: %q", how)
			}
		})
	}
}

func TestJumpHostKeyIsVerified(t *testing.T) {
	node, jump := sshtest.Start(t, sshtest.Config{}), sshtest.Start(t, sshtest.Config{Forward: true})
	cfg := throughJump(t, node, jump)
	cfg.SSH.KnownHosts = sshtest.KnownHosts(t, node)
	f := loginFact(within(t, 30*time.Second), open(t, cfg))
	wantFailure(t, f, diag.SSHJump, "host_key")
	if !strings.Contains(f.Detail, "at jump host ops@"+jump.Addr) || jump.Logins() != 0 {
		t.Errorf("%d logins; detail %q", jump.Logins(), f.Detail)
	}
	cfg.SSH.KnownHosts = sshtest.KnownHosts(t, jump)
	f = loginFact(within(t, 30*time.Second), open(t, cfg))
	wantFailure(t, f, diag.SSHHostKeyUnknown, "host_key")
	if strings.Contains(f.Detail, "at jump host") || node.Logins() != 0 {
		t.Errorf("the node's own key: %q", f.Detail)
	}
	// The node's first key can be accepted through a known jump host.
	if got, err := TrustFirstKey(within(t, 30*time.Second), cfg); err != nil || got.Already {
		t.Errorf("%+v %v", got, err)
	}
	if f := loginFact(within(t, 30*time.Second), open(t, cfg)); f.Failure != diag.OK {
		t.Errorf("%q %s", f.Failure, f.Detail)
	}
}

func TestJumpFailures(t *testing.T) {
	t.Parallel()
	node := sshtest.Start(t, sshtest.Config{})
	closed := sshtest.Nobody(t)
	deny := sshtest.Start(t, sshtest.Config{})
	allow := sshtest.Start(t, sshtest.Config{Forward: true})

	f := loginFact(within(t, 30*time.Second), open(t, throughJump(t, closed, allow)))
	wantFailure(t, f, diag.TCPRefused, "tcp")
	f = loginFact(within(t, 30*time.Second), open(t, throughJump(t, node, deny)))
	wantFailure(t, f, diag.SSHJump, "tcp")
	f = loginFact(within(t, 30*time.Second), open(t, throughJump(t, node, closed)))
	wantFailure(t, f, diag.SSHJump, "tcp")
	if !strings.Contains(f.Detail, "at jump host") {
		t.Errorf("detail %q", f.Detail)
	}

	node.Set(sshtest.Silent)
	_, facts := inVain(t, throughJump(t, node, allow), diag.Timeout, "banner")
	wantFailure(t, facts[0], diag.Timeout, "banner")
	turned := sshtest.Start(t, sshtest.Config{Words: "Not allowed at this time\r\n"})
	turned.Set(sshtest.Words)
	f = loginFact(within(t, 30*time.Second), open(t, throughJump(t, turned, allow)))
	wantFailure(t, f, diag.SSHPenalty, "banner")
	node.Set(sshtest.None)
	allow.Set(sshtest.HangAtOpen)
	_, facts = inVain(t, throughJump(t, node, allow), diag.TCPTimeout, "tcp")
	wantFailure(t, facts[0], diag.TCPTimeout, "tcp")
}

func TestFrozenJumpClosesInTime(t *testing.T) {
	node, jump := sshtest.Start(t, sshtest.Config{}), sshtest.Start(t, sshtest.Config{Forward: true})
	n := open(t, throughJump(t, node, jump))
	if f := loginFact(within(t, 30*time.Second), n); f.Failure != diag.OK {
		t.Fatal(f.Failure, f.Detail)
	}
	jump.Freeze()
	f := n.Probe(within(t, 300*time.Millisecond), []diag.Request{{Op: diag.OpClock}})[0]
	wantFailure(t, f, diag.Timeout, "ssh")
}

func TestJumpFromSSHConfig(t *testing.T) {
	node, jump := sshtest.Start(t, sshtest.Config{}), sshtest.Start(t, sshtest.Config{Forward: true})
	cfg := throughJump(t, node, jump)
	key := cfg.SSH.Identity
	known := cfg.SSH.KnownHosts
	cfg.SSH.Jump, cfg.SSH.User, cfg.SSH.Port, cfg.SSH.Identity, cfg.SSH.KnownHosts = "", "", 0, "", ""
	dir := filepath.Dir(key)
	cfg.Host = "compute-7"
	cfg.ConfigFile = writeFile(t, "config", fmt.Appendf(nil, `
Host bastion
  HostName %s
  Port %d
  User ops
Host compute-*
  HostName %s
  Port %d
  User root
  ProxyJump bastion
Host *
  IdentityFile "%s/%%d-not-there/../id"
  IdentityFile %s
  UserKnownHostsFile %s
`, jump.Host, jump.Port, node.Host, node.Port, dir, key, known))
	f := loginFact(within(t, 30*time.Second), open(t, cfg))
	if f.Failure != diag.OK {
		t.Errorf("%q at %s: %s", f.Failure, f.Phase, f.Detail)
	}
	if f.Target != "root@"+node.Addr || f.SSH.Jump != "ops@"+jump.Addr {
		t.Errorf("target %q, jump %q", f.Target, f.SSH.Jump)
	}
}
