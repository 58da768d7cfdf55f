package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goThatFails is go for make test: the tests of the mutants fail, and every command is printed.
const goThatFails = `#!/bin/sh
echo "ran: $*"
case "$*" in *TestMutants*) printf 'FAIL\texample/mutants\t0.1s\nFAIL\n'; exit 1;; esac
`

// TestAFailedPartKeepsNoOtherFromRunning: make test tries all of its parts, exits with an error if one failed, and its
// last lines name what failed.
func TestAFailedPartKeepsNoOtherFromRunning(t *testing.T) {
	program := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(program, []byte(goThatFails), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", "-C", "../..", "test-fast", "GO="+program, "CC_FOUND=cc")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err == nil || strings.Count(text, "\nran: test ") != 5 || !strings.Contains(text, "ran: test -race") {
		t.Errorf("%v\n%s", err, text)
	}
	_, end, _ := strings.Cut(text, "=== what failed\n")
	if !strings.HasPrefix(end, "FAIL\texample/mutants\t0.1s\nfailed: make test-mutants\nmake") {
		t.Errorf("its end names other parts:\n%s", end)
	}
}
