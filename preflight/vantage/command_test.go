package vantage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestNodeByCommand: a program in place of SSH gives all that a login gives, and its arguments are no shell's.
func TestNodeByCommand(t *testing.T) {
	tier.NeedsHost(t)
	s := sshtest.Start(t, sshtest.Config{})
	cfg := configFor(t, s)
	cfg.Host, cfg.Command = "a pod", []string{"env", "ODD=$(exit 1);'"}
	n := open(t, cfg)
	facts := n.Probe(within(t, time.Minute), []diag.Request{{Op: diag.OpSSH}, {Op: diag.OpClock}})
	for _, f := range facts {
		if f.Failure != diag.OK {
			t.Fatalf("%s: %q at %s: %s", f.Request.Op, f.Failure, f.Phase, f.Detail)
		}
	}
	if f := facts[0].SSH; f.Command != "env" || f.Helper != "installed" || s.Logins() != 0 {
		t.Errorf("%+v, %d logins by SSH", f, s.Logins())
	}
	if how := n.Info().How; how != "command env" {
		t.Errorf("how: %q", how)
	}
	a, err := n.Exec(within(t, time.Minute), Script{Text: `echo "GPUAASCTL-SENTINEL begin"; printf %s "$ODD"; cat
		echo "GPUAASCTL-SENTINEL exit code=0" >&2`, Input: []byte(" and input")})
	if err != nil || string(a.Output) != "$(exit 1);' and input" {
		t.Errorf("%q %v", a.Output, err)
	}
}

// TestNodeByCommandFails: what the program says is in the text, and a program that is not ours is not run.
func TestNodeByCommandFails(t *testing.T) {
	tier.NeedsHost(t)
	for name, tc := range map[string]struct {
		command []string
		word    diag.Failure
		text    string
	}{
		"not there":      {[]string{"/nonexistent/kubectl"}, diag.SSHSetup, "the node's command: "},
		"another's":      {[]string{writable(t)}, diag.SSHSetup, "can be written by others"},
		"it refuses":     {[]string{"sh", "-c", "echo pods is forbidden >&2; exit 3"}, diag.SSHExec, "pods is forbidden"},
		"it is no shell": {[]string{"sleep", "60", "#"}, diag.SSHExec, "sleep: "},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := NodeConfig{ID: "n", Host: "n", Command: tc.command, HelperDirs: ours(t), ConfigFile: "none"}
			f := loginFact(within(t, time.Minute), open(t, cfg))
			if f.Failure != tc.word || !strings.Contains(f.Detail, tc.text) {
				t.Errorf("%q at %s: %q, want %q and %q", f.Failure, f.Phase, f.Detail, tc.word, tc.text)
			}
		})
	}
}

// writable is a program that anyone could have written.
func writable(t *testing.T) string {
	t.Helper()
	file := writeFile(t, "program", []byte("#!/bin/sh\nexec \"$@\"\n"))
	if err := os.Chmod(file, 0o777); err != nil {
		t.Fatal(err)
	}
	return filepath.Clean(file)
}
