// Package mutanttest shows that tests can fail: it breaks one line of the code under test, and requires that they
// notice. All mutants of a package's tests are in one program, each behind a switch (tools/mutants/program); the real
// sources are not changed. Tests call it. tools/mutants makes mutants by itself; these are written by hand.
package mutanttest

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/mutants/program"
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
	Sound   []string // as Args, but without a mutant: fewer checks of a property are enough
	Root    bool     // the test needs it
}

// budget is the time for one mutant to run until something fails. It ends a mutant that hangs; on a machine that
// compiles and tests other things as well, a sound one takes minutes.
const budget = 10 * time.Minute

// Check breaks the module at root once for each mutant. It fails if the mutant's test passes or does not run, if that
// test fails without a mutant, and if the text to replace is missing. A mutant whose test was skipped is skipped with
// that test's reason: its result is unknown.
func Check(t *testing.T, root string, mutants []Mutant) {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]*program.Program{} // by the package of the test
	for _, m := range mutants {
		if programs[m.Package] == nil {
			if programs[m.Package], err = compile(t, root, m.Package, mutants); err != nil {
				t.Fatal(err)
			}
		}
	}
	tried := map[string]bool{}
	for i, m := range mutants {
		p := programs[m.Package]
		if of := m.Package + " " + m.Test; !tried[of] {
			tried[of] = true
			t.Run("none, "+m.Test, func(t *testing.T) {
				t.Parallel()
				sound := m
				sound.Args = m.Sound
				if out := run(t, p, sound, 0); !passes(out, m) {
					t.Errorf("%s fails without a mutant:\n%s", m.Test, printed(out))
				}
			})
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if m.Root && os.Geteuid() != 0 {
				t.Skip("skipped: needs root")
			}
			out := run(t, p, m, i+1)
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

// compile compiles the tests of a package with the mutants that they must detect. The number of a mutant is its place
// in the list, from 1.
func compile(t *testing.T, root, pkg string, mutants []Mutant) (*program.Program, error) {
	t.Helper()
	tier.NeedsHost(t)
	byFile := map[string][]numbered{}
	for i, m := range mutants {
		if m.Package == pkg {
			byFile[m.File] = append(byFile[m.File], numbered{m, i + 1})
		}
	}
	over := program.Overlay{Copies: map[string][]byte{}, Packages: map[string]string{}, Highest: len(mutants)}
	for file, some := range byFile {
		path := filepath.Join(root, filepath.FromSlash(file))
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		copied, err := switched(file, string(text), some)
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, text, parser.PackageClauseOnly)
		if err != nil {
			return nil, err
		}
		over.Copies[path], over.Packages[filepath.Dir(path)] = []byte(copied), tree.Name.Name
	}
	p, err := over.Compile(t.Context(), filepath.Join(root, filepath.FromSlash(pkg)), t.TempDir())
	if err != nil {
		return nil, fmt.Errorf("the mutants of %s: %w", pkg, err)
	}
	return p, nil
}

// run returns the output of m's test, as of `go test -json`, with the mutant that is on.
func run(t *testing.T, p *program.Program, m Mutant, id int) []byte {
	t.Helper()
	args := slices.Concat([]string{"-test.run=^" + m.Test + "$", "-test.failfast", "-test.timeout=" + budget.String()},
		m.Args)
	r, err := p.Do(t.Context(), program.Run{Mutant: id, Limit: budget + time.Minute, Args: args, Events: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Output
}

// passes reports whether m's test passes, or is skipped.
func passes(out []byte, m Mutant) bool {
	result, why := judge(out, m.Test)
	return result == skipped || (result == lives && why == passed)
}
