package vantage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
	"github.com/gpuaas/gpuaasctl/profile"
)

// resolveWith resolves host for user op with home /home/op and the given ssh_config.
func resolveWith(t *testing.T, config, host string, s profile.SSH) (target, error) {
	t.Helper()
	p := place{
		local: openssh.Local{Home: "/home/op", User: "op", Name: "here", UID: "1000", Getenv: os.LookupEnv,
			Run: runShell("/bin/sh"), Lookup: func(context.Context, string) (string, error) { return "", errors.New("no") }},
		files: []openssh.File{{Path: writeFile(t, "config", []byte(config)), Checked: true, Dir: "/home/op/.ssh"}},
	}
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
			"op@plain:22 named=false [" + defaultKeys + "] " +
				"[/home/op/.ssh/known_hosts /home/op/.ssh/known_hosts2 " + globalHosts + "] plain:22"},
		"ssh_config": {"n1", profile.SSH{},
			"ops@n1.nodes.test:2200 named=true [/home/op/.ssh/ops_2200] [/home/op/kh /etc/kh2 " + globalHosts + "] " +
				"n1.nodes.test:2200"},
		"profile wins": {"n2", profile.SSH{User: "root", Port: 22, Identity: "~/k", KnownHosts: "~/p/%h"},
			"root@n2.nodes.test:22 named=true [/home/op/k] [/home/op/p/n2.nodes.test] n2.nodes.test:22"},
		"host key alias": {"a1", profile.SSH{Port: 2022},
			"op@a1:2022 named=false [" + defaultKeys + "] " +
				"[/home/op/.ssh/known_hosts /home/op/.ssh/known_hosts2 " + globalHosts + "] the-a1:22"},
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
	got, err := resolveWith(t, config, "cmd", profile.SSH{})
	if err != nil || got.proxy == nil || got.proxy.command != "exec nc cmd 22" {
		t.Errorf("a ProxyCommand: %+v %v", got.proxy, err)
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

// TestMatchExec: its commands run only where what is before them holds.
func TestMatchExec(t *testing.T) {
	never := filepath.Join(t.TempDir(), "never")
	config := "Match host other exec \"touch " + never + "\"" + `
  User never
Match exec "test %n = node"
  User fromexec
Match !exec "test %n = node"
  Port 2345
Host node
  HostName 192.0.2.7
Match final all
  IdentityFile /k/%h
`
	got, err := resolveWith(t, config, "node", profile.SSH{})
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != "fromexec@192.0.2.7:22" || !got.named || !slices.Equal(got.identities, []string{"/k/192.0.2.7"}) {
		t.Errorf("got %s named=%v %v", &got, got.named, got.identities)
	}
	if _, err := os.Stat(never); err == nil {
		t.Error("a command of another host was run")
	}
}

const globalHosts = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"

const defaultKeys = "/home/op/.ssh/id_ed25519 /home/op/.ssh/id_ecdsa /home/op/.ssh/id_rsa " +
	"/home/op/.ssh/id_ed25519_sk /home/op/.ssh/id_ecdsa_sk"
