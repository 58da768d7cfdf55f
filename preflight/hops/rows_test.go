package hops

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// TestTheFirstRowThatHoldsDecides: the order of the rows is their precedence, a row without its fact does not hold, and
// one without a finding ends the judgement.
func TestTheFirstRowThatHoldsDecides(t *testing.T) {
	is := func(word string) func(judged) bool { return func(j judged) bool { return j.word == word } }
	table := rows{
		{of: func(*hop.Case) *diag.Fact { return nil }, then: undecided("a row without its fact")},
		{when: is("fine")},
		{when: is("bad"), then: fails(diag.SigAuthFailed, "it is %s", theWord), side: diag.SideEdge, direct: true},
		{when: is("bad"), then: undecided("the second row for the same word")},
		{then: undecided("the last row")},
	}
	for word, want := range map[string]diag.Finding{
		"fine":  {},
		"bad":   {Text: "it is bad", Signal: diag.SigAuthFailed, Side: diag.SideEdge, Direct: true},
		"other": {Because: "the last row"},
	} {
		var got diag.Finding
		if out := table.judge(judged{f: &diag.Fact{}, word: word}); out != nil {
			got = *out
		}
		if got.Text != want.Text || got.Because != want.Because || got.Signal != want.Signal || got.Side != want.Side ||
			got.Direct != want.Direct {
			t.Errorf("%s: %+v, want %+v", word, got, want)
		}
	}
	if out := table.judge(judged{word: "bad"}); out != nil {
		t.Errorf("a finding without a fact: %+v", out)
	}
}

// TestATextHasItsWords: the compiler does not compare a row's format with the words that follow it.
func TestATextHasItsWords(t *testing.T) {
	formatAt := map[string]int{"fails": 1, "warns": 1, "observes": 1, "undecided": 0, "unmapped": 0, "unjudged": 0}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	texts, set := 0, token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			id, ok := call.Fun.(*ast.Ident)
			if !ok {
				return true
			}
			at, known := formatAt[id.Name]
			if !known {
				return true
			}
			texts++
			format := literals(call.Args[at])
			words := len(call.Args) - at - 1
			if verbs := strings.Count(format, "%s"); verbs != words || strings.Count(format, "%") != verbs {
				t.Errorf("%s: %q has %d words", set.Position(call.Pos()), format, words)
			}
			return true
		})
	}
	if texts < 100 {
		t.Errorf("%d texts: the test sees too few", texts)
	}
}

// literals returns the string literals of an expression, one after the other.
func literals(e ast.Expr) (text string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			part, _ := strconv.Unquote(lit.Value)
			text += part
		}
		return true
	})
	return text
}
