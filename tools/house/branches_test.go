package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostBranches is how many branches a function of the floors of preflight may have: what has more is a table.
const mostBranches = 15

// TestFunctionsBranchLittle: a judgement with many cases is rows, whose order is their precedence, and not code.
func TestFunctionsBranchLittle(t *testing.T) {
	files, err := filepath.Glob("../../preflight/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	seen := 0
	for _, name := range files {
		folder := filepath.Base(filepath.Dir(name))
		if strings.HasSuffix(name, "_test.go") || folder == "probe" || folder == "vantage" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if seen++; branches(f.Body) > mostBranches {
				t.Errorf("%s.%s has %d branches, more than %d: make it rows", folder, f.Name.Name, branches(f.Body), mostBranches)
			}
		}
	}
	if seen == 0 {
		t.Error("no function was counted")
	}
}

// branches counts the places at which a function goes one of several ways, each part of a condition by itself, but for
// those of functions in it.
func branches(body *ast.BlockStmt) (n int) {
	ast.Inspect(body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return false
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
