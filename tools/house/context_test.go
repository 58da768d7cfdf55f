package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// contextFields are the types that may hold a context, with the reason.
var contextFields = map[string]string{
	"agent/run.go: runtime":                "an event starts work, and another event ends it",
	"chaos/drill/interrupt.go: interrupts": "three lifetimes that one goroutine ends, returned together",
}

// TestContextsArePassed: a context is a parameter and not a field, so a call shows what ends it.
func TestContextsArePassed(t *testing.T) {
	unused := map[string]bool{}
	for place := range contextFields {
		unused[place] = true
	}
	eachFile(t, func(rel string, file *ast.File, at func(ast.Node) int) {
		if strings.HasSuffix(rel, "_test.go") {
			return
		}
		for _, name := range contextHolders(file) {
			place := rel + ": " + name
			if delete(unused, place); contextFields[place] == "" {
				t.Errorf("%s has a field of type context.Context: pass ctx as the first parameter", place)
			}
		}
	})
	for place := range unused {
		t.Errorf("%s is allowed to hold a context, and does not", place)
	}
}

// contextHolders are the struct types of a file that have a field of type context.Context.
func contextHolders(file *ast.File) []string {
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.TypeSpec)
		if !is {
			return true
		}
		ast.Inspect(spec.Type, func(n ast.Node) bool {
			if s, is := n.(*ast.StructType); is && slices.ContainsFunc(s.Fields.List, holdsContext) {
				names = append(names, spec.Name.Name)
			}
			return true
		})
		return false
	})
	return names
}

func holdsContext(f *ast.Field) bool {
	sel, is := f.Type.(*ast.SelectorExpr)
	if !is || sel.Sel.Name != "Context" {
		return false
	}
	pkg, is := sel.X.(*ast.Ident)
	return is && pkg.Name == "context"
}

// TestAHeldContextIsFound: the rule above can fail.
func TestAHeldContextIsFound(t *testing.T) {
	for body, want := range map[string]int{
		"type a struct{ ctx context.Context }":                       1,
		"type a struct{ context.Context }":                           1,
		"type a struct{ b struct{ work, posts context.Context } }":   1,
		"type a struct{ ask func(context.Context) error }":           0,
		"func f() { type a struct{ ctx context.Context } }":          1,
		"type a struct{ end context.CancelFunc; c context.Context }": 1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+body, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := contextHolders(file); len(got) != want {
			t.Errorf("%s: found %v", body, got)
		}
	}
}
