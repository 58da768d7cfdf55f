package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/lab/hosttools"
)

// TestRun: root on Debian installs, anybody else reads what is skipped and why, and a package that cannot be had ends
// the tests in words.
func TestRun(t *testing.T) {
	root := host{linux: true, root: true, apt: true, install: true, path: t.TempDir()}
	with := func(change func(*host)) host { h := root; change(&h); return h }
	for name, tc := range map[string]struct {
		host       host
		args       string
		code       int
		asked      hosttools.Use // handed to the installer; 0: it is not called
		out, errs  string
		installErr error
	}{
		"root":      {host: root, args: "fast", asked: hosttools.Fast, out: "installed for the tests: nftables jq"},
		"lab suite": {host: root, args: "lab", asked: hosttools.Lab | hosttools.Fast | hosttools.Suite | hosttools.Oracle, out: "installed"},
		"no network": {host: root, args: "fast", asked: hosttools.Fast, code: 1,
			installErr: errors.New("apt-get update: no route"), errs: "no route\n(INSTALL=no"},
		"not wanted": {host: with(func(h *host) { h.install = false }), args: "fast", out: "nft (nftables)"},
		"not Debian": {host: with(func(h *host) { h.apt = false }), args: "fast", out: "no apt-get here; install "},
		"not root":   {host: with(func(h *host) { h.root = false }), args: "fast", out: "note: not root"},
		"not root, why": {host: with(func(h *host) { h.root = false }), args: "lab",
			out: "ps (procps): only root installs; as root: apt-get install "},
		"not Linux":   {host: host{}, args: "fast", out: "note: not Linux"},
		"no argument": {host: root, code: 2, errs: "usage: testneeds fast|lab|bench"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked hosttools.Use
			tc.host.installer = func(_ context.Context, uses hosttools.Use) ([]string, error) {
				asked = uses
				return []string{"nftables", "jq"}, tc.installErr
			}
			var out, errs bytes.Buffer
			if code := run(t.Context(), &out, &errs, tc.host, strings.Fields(tc.args)); code != tc.code || asked != tc.asked {
				t.Errorf("exit %d, installs for %b; want %d, %b", code, asked, tc.code, tc.asked)
			}
			if !strings.Contains(out.String(), tc.out) || !strings.Contains(errs.String(), tc.errs) {
				t.Errorf("stdout %q, stderr %q; want %q, %q", out.String(), errs.String(), tc.out, tc.errs)
			}
		})
	}
}
