package mutanttest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/tools/mutants/program"
)

// numbered is a mutant of a file with its number in the program.
type numbered struct {
	Mutant
	id int
}

// switched returns the copy of a source that has the mutants behind switches. A function has a copy for each of its
// mutants, which it calls if that one is on; a variable or a constant is a variable with the value that the switch
// picks.
func switched(name string, text string, mutants []numbered) (string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	var changes program.Edits
	var added strings.Builder
	named, values := map[*ast.FuncDecl]bool{}, map[*ast.ValueSpec]string{}
	for _, m := range mutants {
		if n := strings.Count(text, m.Old); n != 1 {
			return "", fmt.Errorf("%s has this %d times, want it once:\n%s", name, n, m.Old)
		}
		at := strings.Index(text, m.Old)
		changed := func(n ast.Node) string { // the node's text with the mutant
			return strings.Replace(text[offset(n.Pos()):offset(n.End())], m.Old, m.New, 1)
		}
		has := func(n ast.Node) bool { return n != nil && offset(n.Pos()) <= at && at+len(m.Old) <= offset(n.End()) }
		i := slices.IndexFunc(file.Decls, func(d ast.Decl) bool { return has(d) })
		if i < 0 {
			return "", fmt.Errorf("%s: %s: the text is in no declaration", name, m.Name)
		}
		switch d := file.Decls[i].(type) {
		case *ast.FuncDecl:
			if d.Body == nil || !has(d.Body) {
				return "", fmt.Errorf("%s: %s: the text is not in the function's body", name, m.Name)
			}
			if !named[d] {
				named[d] = true
				nameAll(&changes, d, offset)
			}
			copied := fmt.Sprintf("mutant%d%s", m.id, d.Name.Name)
			fmt.Fprintf(&added, "\n%s%s%s%s\n", text[offset(d.Pos()):offset(d.Name.Pos())], copied,
				text[offset(d.Name.End()):offset(d.Body.Pos())], changed(d.Body))
			changes.Replace(offset(d.Body.Lbrace)+1, 0, dispatch(d, copied, m.id))
		case *ast.GenDecl:
			spec, ok := d.Specs[0].(*ast.ValueSpec)
			if !ok || len(d.Specs) != 1 || len(spec.Values) != 1 {
				return "", fmt.Errorf("%s: %s: the text is in a declaration of more than one value", name, m.Name)
			}
			broken, err := parser.ParseFile(token.NewFileSet(), name, "package p\n"+changed(d), parser.SkipObjectResolution)
			if err != nil {
				return "", fmt.Errorf("%s: %w", m.Name, err)
			}
			v := broken.Decls[0].(*ast.GenDecl).Specs[0].(*ast.ValueSpec).Values[0]
			with := ("package p\n" + changed(d))[v.Pos()-1 : v.End()-1]
			without, again := values[spec]
			if !again {
				without = text[offset(spec.Values[0].Pos()):offset(spec.Values[0].End())]
				changes.Replace(offset(d.TokPos), len(d.Tok.String()), "var")
			}
			values[spec] = fmt.Sprintf("mutantPick(%d, %s, %s)", m.id, with, without)
		default:
			return "", fmt.Errorf("%s: %s: the text is in no function and no value", name, m.Name)
		}
	}
	for spec, value := range values {
		v := spec.Values[0]
		changes.Replace(offset(v.Pos()), offset(v.End())-offset(v.Pos()), value)
	}
	return string(changes.Apply([]byte(text))) + added.String(), nil
}

// nameAll gives names to the receiver and the parameters that have none, so that they can be passed on.
func nameAll(changes *program.Edits, d *ast.FuncDecl, offset func(token.Pos) int) {
	n := 0
	next := func() string { n++; return fmt.Sprintf("mutantGiven%d", n) }
	for _, f := range fields(d) {
		if len(f.Names) == 0 {
			name := next()
			f.Names = []*ast.Ident{{Name: name}}
			changes.Replace(offset(f.Type.Pos()), 0, name+" ")
			continue
		}
		for _, of := range f.Names {
			if of.Name == "_" {
				of.Name = next()
				changes.Replace(offset(of.Pos()), 1, of.Name)
			}
		}
	}
}

// fields returns the receiver and the parameters.
func fields(d *ast.FuncDecl) (all []*ast.Field) {
	if d.Recv != nil {
		all = append(all, d.Recv.List...)
	}
	return append(all, d.Type.Params.List...)
}

// dispatch is the statement that calls the function's copy if the mutant is on.
func dispatch(d *ast.FuncDecl, copied string, id int) string {
	var given []string
	for _, f := range fields(d) {
		for _, name := range f.Names {
			more := ""
			if _, ok := f.Type.(*ast.Ellipsis); ok {
				more = "..."
			}
			given = append(given, name.Name+more)
		}
	}
	if d.Recv != nil {
		copied, given = given[0]+"."+copied, given[1:]
	}
	call := copied + "(" + strings.Join(given, ", ") + ")"
	if d.Type.Results == nil {
		return fmt.Sprintf(" if mutantOn(%d) { %s; return };", id, call)
	}
	return fmt.Sprintf(" if mutantOn(%d) { return %s };", id, call)
}
