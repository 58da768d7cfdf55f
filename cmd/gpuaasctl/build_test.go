package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestHelpersOfAnotherBuild: gpuaasctl as the Makefile links it runs the helper that lay beside it then, and no other.
func TestHelpersOfAnotherBuild(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("skipped: it links gpuaasctl, and looks for no race")
	}
	dir := t.TempDir()
	ran, helper := filepath.Join(dir, "ran"), filepath.Join(dir, policy.Program)
	write := func(path, reply string) {
		t.Helper()
		text := "#!/bin/sh\n: >" + ran + "\nread -r line\necho '" + reply + "'\n"
		if err := errors.Join(os.RemoveAll(ran), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	const reply = `{"schema":1,"version":"v1","mistakes":[{"path":"p","text":"of this build"}]}`
	write(helper, reply)
	if out, err := exec.Command("make", "-s", "-C", "../..", "tool", "VERSION=v1", "INTO="+dir, "HELPERS="+helper).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	test := func(want string, runs bool, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "gpuaasctl"), append([]string{"gpu", "policy", "test", "default"}, args...)...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), want) {
			t.Errorf("exit code %d, want 2 and %q: %s", code, want, out)
		}
		if _, err := os.Stat(ran); (err == nil) != runs {
			t.Errorf("the helper ran: %t, want %t", err == nil, runs)
		}
	}
	test("of this build", true)
	write(helper, strings.Replace(reply, "of this build", "of another", 1))
	test(helper+" is not of this build (sha256 ", false)
	test("p: of another", true, "--libexec", dir)
}
