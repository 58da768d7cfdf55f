package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// mayNameReasons are the files that contain a reason's code as text, each with its meaning there.
var mayNameReasons = map[string]string{
	"golden/matrix.go":        "what must be said of the rows of the failure matrix, whose ids these are",
	"diag/classify/matrix.go": "ids of rows of the failure matrix, which a test of the package looks up",
}

// TestReasonsAreConstants: no reason's code is a string literal outside the generated tables and tests, so that a
// reason is found by its constant, and a misspelt one does not compile. "none" is an ordinary word. A constant of
// another type belongs to another vocabulary with the same word.
func TestReasonsAreConstants(t *testing.T) {
	codes := map[string]bool{}
	for _, r := range diag.Reasons() {
		codes[string(r.Code)] = r.Code != diag.ReasonNone
	}
	found := 0
	eachSource(t, func(rel string, file *ast.File, at func(ast.Node) int) {
		typed := map[ast.Expr]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && spec.Type != nil {
				for _, v := range spec.Values {
					typed[v] = true
				}
			}
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || typed[lit] {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !codes[text] {
				return true
			}
			if found++; mayNameReasons[rel] == "" {
				t.Errorf("%s:%d: %q is the code of a reason: use its constant", rel, at(lit), text)
			}
			return true
		})
	})
	if found == 0 {
		t.Error("no file names a reason as a text, not even those that may: this test looks at nothing")
	}
}

// eachSource visits every Go file of the module that is neither a test nor generated.
func eachSource(t *testing.T, visit func(rel string, file *ast.File, line func(ast.Node) int)) {
	t.Helper()
	eachFile(t, func(rel string, file *ast.File, line func(ast.Node) int) {
		if !strings.HasSuffix(rel, "_test.go") {
			visit(rel, file, line)
		}
	})
}

// eachFile also visits tests.
func eachFile(t *testing.T, visit func(rel string, file *ast.File, line func(ast.Node) int)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err == nil {
			visit(filepath.ToSlash(rel), file, func(n ast.Node) int { return set.Position(n.Pos()).Line })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNodesLinkNoYAML: programs on nodes have the catalogue as Go tables and parse none of it, and package diag imports
// only the standard library.
func TestNodesLinkNoYAML(t *testing.T) {
	tier.NeedsHost(t)
	for _, tc := range [...]struct{ pkg, not string }{
		{"cmd/gpuaas-agent", "yaml"}, {"cmd/gpuaas-fault", "yaml"}, {"diag", "."},
	} {
		out, err := exec.Command("go", "list", "-deps", module+tc.pkg).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", tc.pkg, err)
		}
		for path := range strings.FieldsSeq(string(out)) {
			host, _, _ := strings.Cut(path, "/")
			outside := strings.Contains(host, ".") && !strings.HasPrefix(path, module)
			if outside && strings.Contains(path, tc.not) {
				t.Errorf("%s links %s", tc.pkg, path)
			}
		}
		if !strings.Contains(string(out), module+tc.pkg+"\n") {
			t.Errorf("go list -deps %s does not list it: %s", tc.pkg, out)
		}
	}
}
