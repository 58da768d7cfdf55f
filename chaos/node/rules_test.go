//go:build linux

package node

import (
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// TestCuts: a block must not cover the operator's own connection, nor one that the drill names.
func TestCuts(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.9 50022 10.0.0.1 22": "10.0.0.9:50022", "fd00::9 50022 fd00::1 22": "[fd00::9]:50022", "": "",
		"10.0.0.9":                "",
		"10.0.0.9 50022 10.0.0.1": "", "x 50022 10.0.0.1 22": "", "10.0.0.9 x 10.0.0.1 22": "",
		"10.0.0.9 99999 10.0.0.1 22": "",
	} {
		if got, ok := peerOf(text); ok != (want != "") || (ok && got.String() != want) {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	t.Setenv("SSH_CONNECTION", "") // not that of who runs this test
	named := peers(step.Drill{Peers: []string{"10.0.0.9:50022", "no address"}})
	if len(named) == 0 || named[0].String() != "10.0.0.9:50022" {
		t.Errorf("%v", named)
	}
	block := func(remote ...string) step.Drill {
		return step.Drill{Steps: []step.Step{{ID: "a", Changes: []step.Change{{Hold: &step.Hold{}},
			{Block: &step.Block{Proto: "tcp", Remote: remote}}}}}}
	}
	peer := []netip.AddrPort{netip.MustParseAddrPort("10.9.9.9:1"), netip.MustParseAddrPort("10.0.0.9:50022")}
	if r := cuts(block("10.0.0.0/24"), peer); r == nil || r.Code != step.RefusedOperator {
		t.Errorf("%v", r)
	}
	if r := cuts(block("10.0.1.0/24"), peer); r != nil {
		t.Errorf("%v", r)
	}
}

// TestMissing: what the machine needs for an undo is looked for before anything is touched.
func TestMissing(t *testing.T) {
	exec := func(p string) step.Exec { return step.Exec{Argv: []string{p}} }
	there, err := os.Executable()
	fine(t, err)
	with := func(state, do, undo string) step.Drill {
		return step.Drill{Steps: []step.Step{{Changes: []step.Change{{Run: &step.Run{State: exec(state), Do: exec(do),
			Undo: exec(undo)}}}}}}
	}
	always := missing(step.Drill{})
	for d, want := range map[string]step.Drill{"": with(there, there, there), "/no/state": with("/no/state", there, there),
		"/no/do": with(there, "/no/do", there), "/no/undo": with(there, there, "/no/undo")} {
		r := missing(want)
		if d == "" {
			if (r == nil) != (always == nil) {
				t.Errorf("%v, and without a program %v", r, always)
			}
			continue
		}
		if r == nil || r.Code != step.RefusedTools || !strings.Contains(r.Text, d) {
			t.Errorf("%s: %v", d, r)
		}
	}
	if find("/no/such") != "/no/such" || !strings.HasPrefix(find("no-such-program"), "/nonexistent/") {
		t.Errorf("%s %s", find("/no/such"), find("no-such-program"))
	}
}

// TestNear: free space may change by the tolerance, in both directions, and by no byte more.
func TestNear(t *testing.T) {
	scope := step.Scope{Bytes: 100, Inodes: 10}
	for _, tc := range []struct {
		key, a, b string
		scope     step.Scope
		want      bool
	}{
		{"/ bytes", "1000", "1100", scope, true}, {"/ bytes", "1100", "1000", scope, true},
		{"/ bytes", "1000", "1101", scope, false}, {"/ bytes", "1101", "1000", scope, false},
		{"/ inodes", "50", "60", scope, true}, {"/ inodes", "61", "50", scope, false},
		{"/ bytes", "0", "67108864", step.Scope{}, true}, {"/ bytes", "0", "67108865", step.Scope{}, false},
		{"/ inodes", "0", "4096", step.Scope{}, true}, {"/ inodes", "0", "4097", step.Scope{}, false},
		{"/ bytes", "x", "1000", scope, false}, {"/ bytes", "1000", "x", scope, false}, {"/ bytes", "", "10", scope, false},
		{"/ bytes", "10", "", scope, false}, {"/ bytes", "0", "0x", scope, false}, {"/ bytes", "0x", "0", scope, false},
	} {
		if got := near(tc.key, tc.a, tc.b, tc.scope); got != tc.want {
			t.Errorf("%s %q %q: %v", tc.key, tc.a, tc.b, got)
		}
	}
}

// TestDiffOrder: differences come in the order of classes and keys, with what was and what is.
func TestDiffOrder(t *testing.T) {
	a := Fingerprint{Items: map[step.Class]map[string]string{step.ClassFile: {"/c": "1", "/a": "1", "/same": "1"},
		step.ClassDisk: {"/ bytes": "1"}}}
	b := Fingerprint{Items: map[step.Class]map[string]string{step.ClassFile: {"/b": "2", "/a": "2", "/same": "1"},
		step.ClassDisk: {"/ bytes": "99999999999"}},
		Unmeasured: map[step.Class]string{step.ClassNft: "no nft"}}
	allow := []step.Allow{{Class: step.ClassFile, Key: "/a", Why: "first"},
		{Class: step.ClassFile, Key: "/*", Why: "second"}}
	want := []step.Residue{
		{Class: step.ClassNft, Key: "unmeasured", After: "no nft"},
		{Class: step.ClassFile, Key: "/a", Before: "1", After: "2", Allowed: "first"},
		{Class: step.ClassFile, Key: "/b", After: "2", Allowed: "second"},
		{Class: step.ClassFile, Key: "/c", Before: "1", Allowed: "second"},
		{Class: step.ClassDisk, Key: "/ bytes", Before: "1", After: "99999999999"},
	}
	if got := Diff(a, b, step.Scope{}, allow); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	back := Diff(b, a, step.Scope{}, nil)
	if len(back) != 5 || back[0].Before != "no nft" || back[0].After != "" {
		t.Errorf("%v", back)
	}
	m := map[string]string{}
	for _, v := range []string{"a", "b", "c"} {
		put(m, "k", v)
	}
	if !maps.Equal(m, map[string]string{"k": "a", "k#2": "b", "k#3": "c"}) {
		t.Errorf("%v", m)
	}
}

// TestNftBlocks: each block of the packet filter with all its lines, without elements that come and go by themselves.
func TestNftBlocks(t *testing.T) {
	const listing = `
table inet fw {
	set fixed {
		type ipv4_addr
		elements = { 10.0.0.1,
			     10.0.0.2 }
	}
	set timed {
		type ipv4_addr
		flags interval,timeout
		elements = { 10.0.0.3 timeout 5s,
			     10.0.0.4 timeout 5s }
	}
	set learned {
		type ipv4_addr
		flags dynamic
		elements = { 10.0.0.5 }
		size 7
	}
	chain input {
		type filter hook input priority filter; policy accept;
		ip saddr @fixed drop
	}
}
include "x"
}
`
	want := map[string]string{
		"inet fw":             "{  }",
		"inet fw set fixed":   "{ type ipv4_addr; elements = { 10.0.0.1,; 10.0.0.2 } }",
		"inet fw set timed":   "{ type ipv4_addr; flags interval,timeout }",
		"inet fw set learned": "{ type ipv4_addr; flags dynamic; size 7 }",
		"inet fw chain input": "{ type filter hook input priority filter; policy accept;; ip saddr @fixed drop }",
		`include "x"`:         "there", "}": "there",
	}
	if got := nftBlocks(listing); !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestSteadyWords: what iproute2 adds about times, peers and states is left out, each with its value.
func TestSteadyWords(t *testing.T) {
	for _, c := range []struct{ kind, line, want string }{
		{"link", "2: eth0@if7: <UP> mtu 1500 link-netnsid 0 state UP", "eth0 <UP> mtu 1500 state UP"},
		{"rule", "0: from all lookup local", "0: from all lookup local"}, {"link", "", ""}, {"addr", "2:", ""},
		{"route", "default via 10.0.0.1 age 5 dynamic linkdown cache expires 9", "default via 10.0.0.1"},
		{"addr", "2: eth0 inet 10.0.0.1/24 valid_lft 5sec preferred_lft 5sec", "eth0 inet 10.0.0.1/24"},
		{"route6", "default hoplimit 64 via fe80::1 table local proto kernel metric 0", ""},
		{"route6", "default table local proto static", "default table local proto static"},
	} {
		if got := strings.Join(steady(c.kind, c.line), " "); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.kind, c.line, got, c.want)
		}
	}
	for text, want := range map[string]string{"0100007F:0016": "127.0.0.1:22",
		"00000000000000000000000001000000:01BB": "[::1]:443", "0100007F": "", "0100007F:x": "", "01007F:0016": "",
		"xy:0016":               "",
		"0100007F0100007F:0016": "", ":0016": "", "0100007F:10000": ""} {
		if got, err := socketAddress(text); (err == nil) != (want != "") || (err == nil && got.String() != want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestOwnership: by what a place, a file or a unit is recognized as the drill's, as a tenant's, or as passing.
func TestOwnership(t *testing.T) {
	for id, want := range map[string]bool{"ssh@1.service": true, "sshd@1.service": true, "user@1000.service": true,
		"user-runtime-dir@1000.service": true, "gpuaas-session-7.service": true, "ssh.service": false,
		"gpuaas-node-agent.service": false, "a-ssh@1.service": false} {
		if got := ofLogin(id); got != want {
			t.Errorf("%s is of a login: %v", id, got)
		}
	}
	for point, want := range map[string]bool{"/run/credentials/a.service": true, "/run/user/1000": true,
		step.RunDir: true, step.RunDir + "/x": true, "/run": false, "/mnt/run/user/1": false} {
		if got := passing(point); got != want {
			t.Errorf("%s comes and goes: %v", point, got)
		}
	}
	for name, tc := range map[string]struct {
		m    host.Mount
		want bool
	}{
		"our file system":        {host.Mount{Source: "gpuaasctl-r-s-0", Root: "/"}, true},
		"a file of a drill":      {host.Mount{Source: "/dev/sda", Root: "/var/lib/gpuaasctl/drill/r/source-s-0"}, true},
		"and /var is its own":    {host.Mount{Source: "/dev/sda", Root: "/gpuaasctl/drill/r/source-s-0"}, true},
		"and it was removed":     {host.Mount{Root: "/gpuaasctl/drill/r/source-s-0//deleted"}, true},
		"a secret one":           {host.Mount{Source: "tmpfs", Root: "/gpuaasctl-r/00"}, true},
		"the folder of drills":   {host.Mount{Source: "/dev/sda", Root: "/var/lib/gpuaasctl/drill"}, false},
		"another program's":      {host.Mount{Source: "tmpfs", Root: "/"}, false},
		"another of like a name": {host.Mount{Source: "my-gpuaasctl-x", Root: "/"}, false},
	} {
		if got := ours(tc.m); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	const lock = "/etc/gpuaas/generations/.lock"
	for text, want := range map[string]bool{"file 0600 0:0 0 bytes e3b0": true, "file 0644 0:0 0 bytes e3b0": false,
		"file 0600 0:0 1 bytes e3b0": false} {
		if agentsLock(lock, text) != want || agentsLock("/etc/gpuaas/.lock", text) {
			t.Errorf("%q is the agent's lock: %v", text, agentsLock(lock, text))
		}
	}
	for mode, want := range map[uint32]fs.FileMode{0o644: 0o644, unix.S_IFREG | 0o4755: 0o755 | fs.ModeSetuid,
		0o2750: 0o750 | fs.ModeSetgid, 0o1777: 0o777 | fs.ModeSticky} {
		if got := goMode(mode); got != want {
			t.Errorf("%o: %v", mode, got)
		}
	}
}
