// Package mutanttest shows that tests can fail: it breaks one line of the code under test, and requires that they
// notice. The broken file is a copy that only the compiler sees; the real one is not changed. Tests call it.
package mutanttest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// Mutant is one defect, and the test that must detect it.
type Mutant struct {
	Name    string   // names the defect
	File    string   // from the module's root
	Old     string   // text that the file contains exactly once
	New     string   // replaces Old
	Package string   // package of the test: "./chaos/node"
	Test    string   // the test that must fail
	Args    []string // of the test's program, besides -test.run
	Root    bool     // the test needs it
}

// budget is the time for one mutant: to compile, and to run until something fails. It ends a mutant that hangs; on a
// machine that compiles and tests other things as well, a sound one takes minutes.
const budget = 15 * time.Minute

// Check breaks the module at root once for each mutant. It fails if the mutant's test passes or does not run, and if
// the text to replace is missing. A mutant whose test was skipped is skipped with that test's reason: its result is
// unknown.
func Check(t *testing.T, root string, mutants []Mutant) {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if m.Root && os.Geteuid() != 0 {
				t.Skip("skipped: needs root")
			}
			out := run(t, root, m, overlay(t, filepath.Join(root, m.File), m))
			switch result, why := judge(out, m.Test); result {
			case killed:
			case skipped:
				t.Skipf("skipped: %s: %s", m.Test, why)
			default:
				t.Errorf("%s: %s lives: %s; %s printed:\n%s", m.File, m.Name, why, m.Test, printed(out))
			}
		})
	}
}

// overlay writes the broken copy, and the file that makes the compiler use it.
func overlay(t *testing.T, file string, m Mutant) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), m.Old); n != 1 {
		t.Fatalf("%s has this %d times, want it once:\n%s", m.File, n, m.Old)
	}
	dir := t.TempDir()
	broken := filepath.Join(dir, filepath.Base(file))
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for p, text := range map[string]string{broken: strings.Replace(string(b), m.Old, m.New, 1),
		filepath.Join(dir, "overlay.json"): string(list)} {
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "overlay.json")
}

// run returns the output of `go test -json` for m's test on the broken copy.
func run(t *testing.T, root string, m Mutant, overlay string) []byte {
	t.Helper()
	tier.NeedsHost(t)
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	args := []string{"test", "-json", "-count=1", "-vet=off", "-overlay", overlay, "-run", "^" + m.Test + "$", m.Package}
	cmd := exec.CommandContext(ctx, "go", append(args, m.Args...)...)
	cmd.Dir = root
	out, _ := cmd.CombinedOutput() // the events contain the exit status
	return out
}
