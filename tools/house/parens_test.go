package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestParenthesesSayWhatBinds: in every file that is not generated, parentheses show the grouping of && within ||.
func TestParenthesesSayWhatBinds(t *testing.T) {
	seen := 0
	eachFile(t, func(rel string, file *ast.File, at func(ast.Node) int) {
		ast.Inspect(file, func(n ast.Node) bool {
			if and := bareAnd(n); and != nil {
				t.Errorf("%s:%d: && beside || without parentheses", rel, at(and))
			}
			if or, is := n.(*ast.BinaryExpr); is && or.Op == token.LOR {
				seen++
			}
			return true
		})
	})
	if seen == 0 {
		t.Error("no file has an ||: this test looks at nothing")
	}
}

// bareAnd returns an operand of an || that is an && without parentheses, or nil.
func bareAnd(n ast.Node) ast.Expr {
	or, is := n.(*ast.BinaryExpr)
	if !is || or.Op != token.LOR {
		return nil
	}
	for _, side := range [...]ast.Expr{or.X, or.Y} {
		if and, is := side.(*ast.BinaryExpr); is && and.Op == token.LAND {
			return and
		}
	}
	return nil
}

// TestBareAndIsFound: the rule above can fail.
func TestBareAndIsFound(t *testing.T) {
	for text, bare := range map[string]bool{
		"a || b && c": true, "a && b || c": true, "a || (b && c)": false, "(a || b) && c": false, "a || b || c": false,
	} {
		expr, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := bareAnd(expr) != nil; got != bare {
			t.Errorf("%s: found %t", text, got)
		}
	}
}
