package platform

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestEveryCounterIsPrinted: each counter that the sources increment has a row of help, without which it is not
// printed, and is documented with its labels; and each row is a counter.
func TestEveryCounterIsPrinted(t *testing.T) {
	counters := incremented(t)
	page, err := os.ReadFile("../../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	var m metrics
	for name, labels := range counters {
		var pairs []string
		documented := name
		if len(labels) > 0 {
			documented += "{" + strings.Join(labels, ",") + "}"
			for _, l := range labels {
				pairs = append(pairs, l, "x")
			}
		}
		m.add(name, pairs...)
		if !strings.Contains(string(page), "`"+documented+"`") {
			t.Errorf("docs/contract.md has no `%s`", documented)
		}
	}
	text := m.text()
	for name := range counters {
		full := metricPrefix + name
		if !strings.Contains(text, "# HELP "+full+" ") || !strings.Contains(text, "# TYPE "+full+" counter\n"+full) {
			t.Errorf("%s is counted and not printed", name)
		}
	}
	for _, h := range metricHelp {
		if _, ok := counters[h.name]; !ok {
			t.Errorf("%s is printed and never counted", h.name)
		}
	}
}

// incremented returns the labels of every counter that the package's sources add to, by name.
func incremented(t *testing.T) map[string][]string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			add, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || add.Sel.Name != "add" {
				return true
			}
			if of, ok := add.X.(*ast.SelectorExpr); !ok || of.Sel.Name != "metrics" {
				return true
			}
			name := literal(call.Args[0])
			if name == "" {
				t.Errorf("%s: a counter whose name is no literal", path)
			}
			var labels []string
			for i := 1; i < len(call.Args); i += 2 {
				labels = append(labels, literal(call.Args[i]))
			}
			found[name] = labels
			return true
		})
	}
	if len(found) < 10 {
		t.Fatalf("only %d counters found: %v", len(found), found)
	}
	return found
}

// literal is the value of a string literal, else "".
func literal(e ast.Expr) string {
	l, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, err := strconv.Unquote(l.Value)
	if err != nil {
		return ""
	}
	return s
}
