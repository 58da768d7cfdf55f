package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// unnamed are identifiers that say nothing to a reader who searches for what they do, with what to say instead.
var unnamed = map[string]string{
	"look": "what is done: measure, read, inspect, list, connect", "Look": "a snapshot, a state, a probe, a layout",
	"take": "get, accept, spend, handle, add", "Take": "read, start", "said": "what it is: text, format, evidence",
	"say": "emit, write, format", "Say": "render, print", "says": "an error, a text", "Says": "an error, a text",
	"note": "record, entry, line", "leave": "close, release, end", "Leave": "remove, close", "Left": "remaining, an error",
	"again": "retry, reread, restart", "Again": "retry, reread, restart", "putBack": "revert", "PutBack": "revert",
	"eyes": "a view, a context", "climb": "exchange, request", "arrive": "connect", "park": "release, put",
	"room": "width, arena, reserve", "shelf": "blocks", "volley": "burst", "crowd": "load", "muted": "inert",
	"Here": "local", "Back": "roll back", "Spare": "the target of a rollback", "Alone": "lock",
	"Cede": "yield", "Tidy": "remove", "Shut": "close", "News": "changed, stale", "Fine": "succeeded", "Door": "limits",
	"Worded": "with a hint", "Outlive": "ignore a signal", "Gravity": "urgency", "Fitting": "fit", "Foremost": "with ...",
	"Heard": "a result", "Beat": "a heartbeat", "Sparing": "a payload", "Gone": "unlinked", "Near": "nearest",
	"Strays": "unknown ...", "Condemn": "revert", "Recall": "read",
}

// TestNames: no function, method, type or constant of a program has one of these names. Exported names are the words
// of an interface, and have its documentation beside them.
func TestNames(t *testing.T) {
	eachFile(t, func(rel string, file *ast.File, line func(ast.Node) int) {
		if strings.HasSuffix(rel, "_test.go") || strings.HasPrefix(rel, "tools/testkit/") {
			return
		}
		for _, name := range declared(file) {
			if instead := refused(name.Name); instead != "" {
				t.Errorf("%s:%d: %s: name it for what it does: %s", rel, line(name), name.Name, instead)
			}
		}
	})
}

// refused returns what to say instead of a name; "" if it may stay.
func refused(name string) string {
	if strings.HasSuffix(name, "Most") && len(name) > len("Most") {
		return "a timeout, a limit, max..."
	}
	return unnamed[name]
}

// declared returns the names of a file's functions, methods, types and constants, and of methods of its interfaces.
func declared(file *ast.File) (names []*ast.Ident) {
	for _, top := range file.Decls {
		switch top := top.(type) {
		case *ast.FuncDecl:
			names = append(names, top.Name)
		case *ast.GenDecl:
			for _, spec := range top.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name)
					if methods, is := spec.Type.(*ast.InterfaceType); is {
						for _, m := range methods.Methods.List {
							names = append(names, m.Names...)
						}
					}
				case *ast.ValueSpec:
					if top.Tok == token.CONST {
						names = append(names, spec.Names...)
					}
				}
			}
		}
	}
	return names
}

// TestTheNameRuleCanFail: every kind of declaration is read.
func TestTheNameRuleCanFail(t *testing.T) {
	const source = `package p
type climb struct{}
type doer interface{ look() }
func (climb) take() {}
func PutBack() {}
const askMost = 1
func inspect() { said := 1; _ = said }
`
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range declared(file) {
		if refused(name.Name) != "" {
			got = append(got, name.Name)
		}
	}
	if want := []string{"climb", "look", "take", "PutBack", "askMost"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
