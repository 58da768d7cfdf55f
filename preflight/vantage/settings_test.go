package vantage

import (
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/profile"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// resolveWith resolves host for user op with home /home/op and the given ssh_config.
func resolveWith(t *testing.T, config, host string, s profile.SSH) (target, error) {
	t.Helper()
	p := place{home: "/home/op", user: "op", files: []string{writeFile(t, "config", []byte(config))}}
	return p.resolve(t.Context(), host, s)
}

func TestResolve(t *testing.T) {
	const config = `
Host n1 n2
  HostName %h.nodes.test
  Port 2200
  User ops
  IdentityFile ~/.ssh/%r_%p
  UserKnownHostsFile ~/kh /etc/kh2
Host a1
  HostKeyAlias the-a1
Host via
  ProxyJump root@b1:2222,b2
Host cmd
  ProxyCommand nc %h %p
`
	for name, c := range map[string]struct {
		host string
		s    profile.SSH
		want string
	}{
		"defaults": {"plain", profile.SSH{},
			"op@plain:22 named=false [/home/op/.ssh/id_ed25519 /home/op/.ssh/id_ecdsa /home/op/.ssh/id_rsa] " +
				"[/home/op/.ssh/known_hosts /home/op/.ssh/known_hosts2 /etc/ssh/ssh_known_hosts] plain:22"},
		"ssh_config": {"n1", profile.SSH{},
			"ops@n1.nodes.test:2200 named=true [/home/op/.ssh/ops_2200] [/home/op/kh /etc/kh2 /etc/ssh/ssh_known_hosts] " +
				"n1.nodes.test:2200"},
		"profile wins": {"n2", profile.SSH{User: "root", Port: 22, Identity: "~/k", KnownHosts: "~/p/%h"},
			"root@n2.nodes.test:22 named=true [/home/op/k] [/home/op/p/n2.nodes.test] n2.nodes.test:22"},
		"host key alias": {"a1", profile.SSH{Port: 2022},
			"op@a1:2022 named=false [/home/op/.ssh/id_ed25519 /home/op/.ssh/id_ecdsa /home/op/.ssh/id_rsa] " +
				"[/home/op/.ssh/known_hosts /home/op/.ssh/known_hosts2 /etc/ssh/ssh_known_hosts] the-a1:22"},
		"an IPv6 address": {"fd00::1", profile.SSH{User: "root", Identity: "/k", KnownHosts: "/h"},
			"root@[fd00::1]:22 named=true [/k] [/h] [fd00::1]:22"},
		"jump none in flag": {"via", profile.SSH{User: "root", Identity: "/k", KnownHosts: "/h", Jump: "none"},
			"root@via:22 named=true [/k] [/h] via:22"},
		"jumps": {"via", profile.SSH{User: "root", Identity: "/k", KnownHosts: "/h"},
			"root@via:22 named=true [/k] [/h] via:22 <root@b1:2222 named=true [/k] [/h] b1:2222> <op@b2:22 named=true [/k] " +
				"[/h] b2:22>"},
		"jump in flag": {"n1", profile.SSH{User: "root", Identity: "/k", KnownHosts: "/h", Jump: "n2"},
			"root@n1.nodes.test:2200 named=true [/k] [/h] n1.nodes.test:2200 <ops@n2.nodes.test:2200 named=true " +
				"[/home/op/.ssh/ops_2200] [/h] n2.nodes.test:2200>"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resolveWith(t, config, c.host, c.s)
			if err != nil {
				t.Fatal(err)
			}
			if s := describe(&got); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
		})
	}
	if _, err := resolveWith(t, config, "cmd", profile.SSH{}); err == nil ||
		!strings.Contains(err.Error(), "ProxyCommand") {
		t.Errorf("a ProxyCommand: %v", err)
	}
	for _, bad := range []string{"host:0", "host:99999", "user@", ","} {
		if _, err := resolveWith(t, "", "x", profile.SSH{Jump: bad}); err == nil {
			t.Errorf("jump %q was accepted", bad)
		}
	}
}

func describe(t *target) string {
	s := fmt.Sprintf("%s named=%v %v %v %s", t, t.named, t.identities, t.knownHosts, t.keyAddress())
	for i := range t.jumps {
		s += " <" + describe(&t.jumps[i]) + ">"
	}
	return s
}

// What the parser does not support is left to the ssh program.
func TestMatchExecFallsBackToSSH(t *testing.T) {
	tier.NeedsHost(t)
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("needs the ssh program")
	}
	const config = `
Match exec "true"
  User fromexec
Match final all
  Port 2345
Host node
  HostName 192.0.2.7
`
	ask := func(config string) (got target, err error) {
		for range 5 { // ssh has a few seconds, and this machine may be busy
			if got, err = resolveWith(t, config, "node", profile.SSH{}); err == nil {
				break
			}
		}
		return got, err
	}
	got, err := ask(config)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != "fromexec@192.0.2.7:2345" || got.named {
		t.Errorf("got %s named=%v %v", &got, got.named, got.identities)
	}
	got, err = ask(config + "\n  IdentityFile /k/%h\n")
	if err != nil {
		t.Fatal(err)
	}
	if !got.named || !reflect.DeepEqual(got.identities, []string{"/k/192.0.2.7"}) {
		t.Errorf("got named=%v %v", got.named, got.identities)
	}
	if _, err := resolveWith(t, config, "-oProxyCommand=x", profile.SSH{}); err == nil {
		t.Error("a host name that is an option was handed to ssh")
	}
}
