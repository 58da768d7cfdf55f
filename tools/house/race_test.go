package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestRaceDetectorRunsWhereGoroutinesAre: tools/ci excludes from the race detector's run, without a reason for each,
// exactly the packages whose tests start no goroutine and link no package of ours that starts one.
func TestRaceDetectorRunsWhereGoroutinesAre(t *testing.T) {
	tier.NeedsHost(t)
	source, err := os.ReadFile("../ci/race.go")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile("(?s)noGoroutines = strings.Fields\\(`(.*?)`").FindSubmatch(source)
	if list == nil {
		t.Fatal("tools/ci/race.go has no noGoroutines")
	}
	left := strings.Fields(string(list[1]))
	cmd := exec.Command("go", "list", "-test", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	starts := map[string]bool{} // by folder
	startsOne := func(folder string, tests bool) bool {
		known, ok := starts[folder]
		if !ok {
			known = startsGoroutine(t, folder, false)
			starts[folder] = known
		}
		return known || (tests && startsGoroutine(t, folder, true))
	}
	tested := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		of, isTest := strings.CutSuffix(strings.TrimPrefix(fields[0], module), ".test")
		if !isTest {
			continue
		}
		tested++
		why := ""
		for _, dep := range fields[1:] {
			folder, ours := strings.CutPrefix(dep, module)
			if folder = strings.TrimSuffix(folder, "_test"); ours && !strings.HasSuffix(folder, ".test") &&
				startsOne(folder, folder == of) {
				why = folder
			}
		}
		switch listed := slices.Contains(left, of); {
		case listed && why != "":
			t.Errorf("%s is in noGoroutines, and %s starts goroutines", of, why)
		case !listed && why == "":
			t.Errorf("%s starts no goroutine, and links nothing that does: add it to noGoroutines", of)
		}
		left = slices.DeleteFunc(left, func(p string) bool { return p == of })
	}
	if tested < 50 || len(left) > 0 {
		t.Errorf("%d packages with tests; noGoroutines has %v, which are none", tested, left)
	}
}

// startsGoroutine reports whether a source of the folder, or one of its tests, starts a goroutine itself or by the
// usual calls.
func startsGoroutine(t *testing.T, folder string, tests bool) (found bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	calls := []string{"Go", "AfterFunc", "Parallel", "NewServer", "NewTLSServer", "NewUnstartedServer"}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") != tests {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = true
			case *ast.SelectorExpr:
				found = found || slices.Contains(calls, n.Sel.Name)
			}
			return !found
		})
	}
	return found
}
