package main

import (
	"fmt"
	"go/ast"
	"go/types"
)

// cases lets each value of each case never match. A switch over a value becomes one over conditions.
func (f *finder) cases(s *ast.SwitchStmt) {
	if s.Tag == nil {
		for _, v := range caseValues(s) {
			if f.isBool(v) {
				if id, ok := f.add(dropped, v, "case "+f.source(v), "no case"); ok {
					f.wrap(v, "((", ") && !mutantOn("+id+"))")
				}
			}
		}
		return
	}
	tv, plain := f.info.Types[s.Tag], isPlain(s.Tag)
	basic, _ := tv.Type.Underlying().(*types.Basic)
	if len(caseValues(s)) == 0 || (tv.Value != nil && !plain) || (basic != nil && basic.Info()&types.IsBoolean != 0) ||
		(!plain && s.Init != nil) {
		return
	}
	tag := f.source(s.Tag)
	if plain {
		f.edits.Replace(f.offset(s.Tag.Pos()), len(tag), "")
	} else {
		f.wrap(s.Tag, "mutantTag := (", ");")
		tag = "mutantTag"
	}
	for _, v := range caseValues(s) {
		text := f.source(v)
		if id, ok := f.add(dropped, v, "case "+text+" of "+f.source(s.Tag), "no case"); ok {
			f.wrap(v, "("+tag+" == (", ") && !mutantOn("+id+"))")
		} else {
			f.wrap(v, "("+tag+" == (", "))")
		}
	}
}

func caseValues(s *ast.SwitchStmt) (all []ast.Expr) {
	for _, c := range s.Body.List {
		all = append(all, c.(*ast.CaseClause).List...)
	}
	return all
}

// isPlain reports whether e is a name, or a field of one: reading it again has no effect.
func isPlain(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return true
	case *ast.SelectorExpr:
		return isPlain(e.X)
	}
	return false
}

// extremes makes max of min and the reverse.
func (f *finder) extremes(c *ast.CallExpr) {
	name, ok := c.Fun.(*ast.Ident)
	if !ok || f.info.Types[c].Value != nil || len(c.Args) < 2 {
		return
	}
	if b, ok := f.info.Uses[name].(*types.Builtin); !ok || (b.Name() != "min" && b.Name() != "max") {
		return
	}
	other, function := "max", "mutantMin("
	if name.Name == "max" {
		other, function = "min", "mutantMax("
	}
	if id, ok := f.add(extreme, c, f.source(c), other+f.source(c)[len(name.Name):]); ok {
		f.edits.Replace(f.offset(c.Pos()), f.offset(c.Lparen)+1-f.offset(c.Pos()), function+id+", ")
	}
}

// rows leaves out each row of a table: a slice of at least two. In a function only rows that have fields are rows of a
// table; others may be the words of a command.
func (f *finder) rows(e ast.Expr, declared bool) {
	table, ok := e.(*ast.CompositeLit)
	if !ok || len(table.Elts) < 2 {
		return
	}
	if _, ok := f.info.Types[table].Type.Underlying().(*types.Slice); !ok {
		return
	}
	for _, r := range table.Elts {
		_, key := r.(*ast.KeyValueExpr)
		if _, fields := r.(*ast.CompositeLit); key || (!declared && !fields) {
			return
		}
	}
	first := ""
	for _, r := range table.Elts {
		id, ok := f.add(row, r, "row "+f.source(r), "no row")
		if !ok {
			id = fmt.Sprint(f.next())
		}
		if first == "" {
			first = id
		}
	}
	f.wrap(table, "mutantRows("+first+", ", ")")
}
