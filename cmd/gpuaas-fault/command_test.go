//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// maxBinary is the program's budget in bytes: it is pushed to a machine for every drill.
const maxBinary = 5_000_000

// build builds the program with the Makefile's flags.
func build(t *testing.T) string {
	t.Helper()
	tier.NeedsHost(t)
	bin := filepath.Join(t.TempDir(), "gpuaas-fault")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-l", "-ldflags",
		"-s -w -X main.version=test1", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func TestProgram(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("skipped: builds a binary")
	}
	bin := build(t)
	fi, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("binary %d bytes of %d", fi.Size(), maxBinary)
	if fi.Size() > maxBinary {
		t.Errorf("binary has %d bytes, more than %d", fi.Size(), maxBinary)
	}
	out, err := exec.Command(bin, "version").Output()
	if err != nil || string(out) != "test1\n" {
		t.Errorf("version: %q %v", out, err)
	}
}

// TestSameFlagsAsMakefile: the test's build uses the release's flags, so that the size limit applies to the
// release.
func TestSameFlagsAsMakefile(t *testing.T) {
	b, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "GOFLAGS_FAULT = -trimpath -buildvcs=false -gcflags=all=-l -ldflags \"$(LDFLAGS)\"") {
		t.Error("the Makefile builds it with other flags than this test")
	}
}

func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		args []string
		in   string
		code int
		want string
	}{
		{nil, "", exitUsage, ""},
		{[]string{"--help"}, "", exitOK, "usage: gpuaas-fault"},
		{[]string{"explode"}, "", exitUsage, ""},
		{[]string{"status", "--verbose"}, "", exitUsage, ""},
		{[]string{"status", "r1"}, "", exitUsage, ""},
		{[]string{"status", "--run", "../../etc"}, "", exitUsage, ""},
		{[]string{"version"}, "", exitOK, "dev\n"},
		{[]string{"status", "--run", "no-such-run"}, "", step.ExitRefused, `"code":"no_drill"`},
		{[]string{"arm"}, `{"schema":"gpuaas.drill/v1","runn":"x"}`, step.ExitRefused, `unknown field \"runn\"`},
		{[]string{"arm"}, "", step.ExitRefused, `"code":"drill_invalid"`},
	} {
		var out, errs bytes.Buffer
		if code := command(context.Background(), tc.args, strings.NewReader(tc.in), &out, &errs); code != tc.code ||
			!strings.Contains(out.String(), tc.want) {
			t.Errorf("%q: code %d, %s%s", tc.args, code, out.String(), errs.String())
		}
		if tc.code == step.ExitRefused {
			var r step.Reply
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Refused == nil || strings.Count(out.String(), "\n") != 1 {
				t.Errorf("%q: not one reply: %s", tc.args, out.String())
			}
		}
	}
}
