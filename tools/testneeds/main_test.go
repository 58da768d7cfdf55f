package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/lab/hosttools"
)

// TestRun: root on Debian installs, any other user reads what is skipped and why, and a package that cannot be found
// stops the tests with a message.
func TestRun(t *testing.T) {
	root := host{linux: true, root: true, apt: true, install: true, path: t.TempDir()}
	with := func(change func(*host)) host { h := root; change(&h); return h }
	for name, tc := range map[string]struct {
		host       host
		args       string
		code       int
		asked      hosttools.Use // passed to the installer; 0: it is not called
		out, errs  string
		installErr error
		unpackErr  error
	}{
		"root": {host: root, args: "fast", asked: hosttools.Fast, out: "installed for the tests: nftables jq"},
		"lab suite": {host: root, args: "lab", out: "installed for the lab's GPUs: nftables jq\n",
			asked: hosttools.Lab | hosttools.Fast | hosttools.Suite | hosttools.Oracle | hosttools.Compiler},
		"demo": {host: root, args: "gpus", asked: hosttools.Compiler, out: "installed for the lab's GPUs: nftables jq\n"},
		"demo without a network": {host: root, args: "gpus", asked: hosttools.Compiler,
			installErr: errors.New("apt-get update: no route"), out: "note: no C compiler: apt-get update: no route\n"},
		"no caddy": {host: root, args: "fast", asked: hosttools.Fast, unpackErr: errors.New("unpack caddy: no such package"),
			out: "unpacked for the tests in " + hosttools.Unpacked +
				": nginx\nnote: tests with a server that is missing are skipped: unpack caddy"},
		"bench has no servers": {host: root, args: "bench", asked: hosttools.Lab | hosttools.Oracle | hosttools.Bench,
			out: "installed for the tests: nftables jq\n"},
		"pages": {host: root, args: "html", asked: hosttools.Browser, out: "installed for the tests: nftables jq\n"},
		"no network": {host: root, args: "fast", asked: hosttools.Fast, code: 1,
			installErr: errors.New("apt-get update: no route"), errs: "no route\n(INSTALL=no"},
		"not wanted": {host: with(func(h *host) { h.install = false }), args: "fast", out: "nft (nftables)"},
		"not Debian": {host: with(func(h *host) { h.apt = false }), args: "fast", out: "no apt-get here; install "},
		"not root":   {host: with(func(h *host) { h.root = false }), args: "fast", out: "note: not root"},
		"not root, why": {host: with(func(h *host) { h.root = false }), args: "lab",
			out: "): only root installs; as root: apt-get install "},
		"not Linux":   {host: host{}, args: "fast", out: "note: not Linux"},
		"no argument": {host: root, code: 2, errs: "usage: testneeds fast|lab|bench|html|gpus"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked hosttools.Use
			tc.host.installer = func(_ context.Context, uses hosttools.Use) ([]string, error) {
				asked |= uses
				return []string{"nftables", "jq"}, tc.installErr
			}
			unpacked := false
			tc.host.nvidia = func(context.Context) ([]string, error) { return nil, nil }
			tc.host.unpacker = func(_ context.Context, uses hosttools.Use) ([]string, error) {
				unpacked = uses == hosttools.Server
				return []string{"nginx"}, tc.unpackErr
			}
			var out, errs bytes.Buffer
			if code := run(t.Context(), &out, &errs, tc.host, strings.Fields(tc.args)); code != tc.code || asked != tc.asked {
				t.Errorf("exit %d, installs for %b; want %d, %b", code, asked, tc.code, tc.asked)
			}
			if want := tc.asked&hosttools.Fast != 0 && tc.installErr == nil; unpacked != want {
				t.Errorf("servers are unpacked: %t, want %t", unpacked, want)
			}
			if !strings.Contains(out.String(), tc.out) || !strings.Contains(errs.String(), tc.errs) {
				t.Errorf("stdout %q, stderr %q; want %q, %q", out.String(), errs.String(), tc.out, tc.errs)
			}
		})
	}
}
