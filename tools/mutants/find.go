package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"

	"github.com/gpuaas/gpuaasctl/tools/mutants/program"
)

// finder finds the mutations of one file, and writes the copy that has all of them behind switches. The copy has the
// same lines as the file, so messages of the compiler and of tests name the right ones.
type finder struct {
	set      *token.FileSet
	info     *types.Info
	name     string // from the module's root
	text     []byte
	function string
	edits    program.Edits
	found    []mutation
	next     func() int          // the next number
	without  func(mutation) bool // the mutation is left out of the program
}

// file finds the mutations of all declarations but constants, which must stay constant.
func (f *finder) file(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			f.function = functionName(d)
			if d.Body != nil {
				ast.Inspect(d.Body, f.visit)
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.ValueSpec)
				f.function = "var " + s.Names[0].Name
				for _, v := range s.Values {
					f.rows(v, true)
					ast.Inspect(v, f.visit)
				}
			}
		}
	}
}

// functionName returns "Name" or "Receiver.Name".
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	of := d.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ArrayType:
		return false // its length is a constant
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.condition(n.Cond)
		}
	case *ast.SwitchStmt:
		f.cases(n)
	case *ast.ReturnStmt:
		for _, r := range n.Results {
			f.rows(r, false)
			f.result(r)
		}
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.CallExpr:
		f.extremes(n)
	}
	return true
}

// add makes a mutation of n, unless it is left out of the program. It returns its number as text.
func (f *finder) add(k kind, n ast.Node, before, after string) (id string, ok bool) {
	m := mutation{kind: k, file: f.name, line: f.set.Position(n.Pos()).Line, function: f.function, before: oneLine(before),
		after: oneLine(after)}
	if f.without(m) {
		return "", false
	}
	m.id = f.next()
	f.found = append(f.found, m)
	return fmt.Sprint(m.id), true
}

// source returns the text of n in the file.
func (f *finder) source(n ast.Node) string {
	return string(f.text[f.offset(n.Pos()):f.offset(n.End())])
}

func (f *finder) offset(p token.Pos) int { return f.set.Position(p).Offset }

// wrap puts text around n.
func (f *finder) wrap(n ast.Node, before, after string) {
	f.edits.Open(f.offset(n.Pos()), before)
	f.edits.Close(f.offset(n.End()), after)
}

// isBool reports whether e is of type bool and no constant: a named type would not be compared with a switch.
func (f *finder) isBool(e ast.Expr) bool {
	tv, ok := f.info.Types[e]
	return ok && tv.Value == nil && (types.Identical(tv.Type, types.Typ[types.Bool]) ||
		tv.Type == types.Typ[types.UntypedBool])
}

// condition negates the condition of an if or a for. Others change one that is a comparison for equality, or has && or
// ||.
func (f *finder) condition(e ast.Expr) {
	if !f.isBool(e) || f.changedElsewhere(e) {
		return
	}
	if id, ok := f.add(negated, e, f.source(e), "!("+f.source(e)+")"); ok {
		f.wrap(e, "((", ") != mutantOn("+id+"))")
	}
}

func (f *finder) changedElsewhere(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	return ok && slices.Contains([]token.Token{token.EQL, token.NEQ, token.LAND, token.LOR}, b.Op)
}

// result negates a result, also a constant one.
func (f *finder) result(e ast.Expr) {
	tv := f.info.Types[e]
	if tv.Value != nil && tv.Value.Kind() == constant.Bool && (tv.Type == types.Typ[types.UntypedBool] ||
		tv.Type == types.Typ[types.Bool]) {
		if id, ok := f.add(negated, e, "return "+f.source(e), "the opposite"); ok {
			f.wrap(e, "(", " != mutantOn("+id+"))")
		}
		return
	}
	if !f.isBool(e) || f.changedElsewhere(e) {
		return
	}
	if id, ok := f.add(negated, e, "return "+f.source(e), "return !("+f.source(e)+")"); ok {
		f.wrap(e, "((", ") != mutantOn("+id+"))")
	}
}

// moved are the comparisons of order: the function that moves the bound, and what it then is.
var moved = map[token.Token]struct{ function, op string }{
	token.LSS: {"mutantLess", "<="}, token.LEQ: {"mutantLessEqual", "<"},
	token.GTR: {"mutantMore", ">="}, token.GEQ: {"mutantMoreEqual", ">"},
}

func (f *finder) binary(b *ast.BinaryExpr) {
	if !f.isBool(b) {
		return
	}
	switch b.Op {
	case token.EQL, token.NEQ:
		f.equality(b)
	case token.LAND, token.LOR:
		f.logical(b)
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		f.order(b)
	}
}

// order moves the bound of a comparison by one, and the number after it.
func (f *finder) order(b *ast.BinaryExpr) {
	left, right, to := f.source(b.X), f.source(b.Y), moved[b.Op]
	id, ok := f.add(bound, b, f.source(b), left+" "+to.op+" "+right)
	if !ok {
		return
	}
	call := to.function
	if v := f.info.Types[b.Y]; v.Value != nil && isInteger(f.info.Types[b.X].Type) {
		if next, ok := f.add(bound, b, f.source(b), left+" "+b.Op.String()+" "+right+" + 1"); ok {
			call += "Next(" + id + ", " + next
		}
	}
	if call == to.function {
		call += "(" + id
	}
	f.edits.Open(f.offset(b.Pos()), call+", ")
	f.edits.Replace(f.offset(b.OpPos), len(b.Op.String()), ",")
	f.edits.Close(f.offset(b.End()), ")")
}

func isInteger(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0
}

// equality makes == of != and the reverse; an error that is compared with nil is never seen.
func (f *finder) equality(b *ast.BinaryExpr) {
	left, right := f.source(b.X), f.source(b.Y)
	if f.ofError(b) {
		if b.Op == token.NEQ {
			if id, ok := f.add(ignored, b, f.source(b), "false"); ok {
				f.wrap(b, "(", " && !mutantOn("+id+"))")
			}
		} else if id, ok := f.add(ignored, b, f.source(b), "true"); ok {
			f.wrap(b, "(", " || mutantOn("+id+"))")
		}
		return
	}
	op := token.NEQ
	if b.Op == token.NEQ {
		op = token.EQL
	}
	if id, ok := f.add(equal, b, f.source(b), left+" "+op.String()+" "+right); ok {
		f.wrap(b, "((", ") != mutantOn("+id+"))")
	}
}

// ofError reports whether an error is compared with nil.
func (f *finder) ofError(b *ast.BinaryExpr) bool {
	t := f.info.Types[b.X].Type
	return f.info.Types[b.Y].IsNil() && t != nil && t.String() == "error"
}

// ignores reports whether to leave out e, for the value that is neutral, is to ignore an error, which is a mutation of
// its own.
func (f *finder) ignores(e ast.Expr, neutral string) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	return ok && f.ofError(b) && ((b.Op == token.EQL && neutral == "true") || (b.Op == token.NEQ && neutral == "false"))
}

// logical makes || of && and the reverse, and leaves out each operand. a && b with a switch is
// ((a) != on && (b) != on) != on, which is a || b if it is on, and evaluates b only if a does not decide.
func (f *finder) logical(b *ast.BinaryExpr) {
	op, neutral := token.LOR, "true"
	if b.Op == token.LOR {
		op, neutral = token.LAND, "false"
	}
	if !f.isBool(b.X) || !f.isBool(b.Y) {
		return
	}
	if id, ok := f.add(logic, b, f.source(b), f.source(b.X)+" "+op.String()+" "+f.source(b.Y)); ok {
		on := " != mutantOn(" + id + ")"
		f.edits.Open(f.offset(b.Pos()), "(((")
		f.edits.Close(f.offset(b.X.End()), ")"+on)
		f.edits.Open(f.offset(b.Y.Pos()), "(")
		f.edits.Close(f.offset(b.End()), ")"+on+")"+on+")")
	}
	for _, e := range []ast.Expr{b.X, b.Y} {
		if inner, ok := ast.Unparen(e).(*ast.BinaryExpr); ok && inner.Op == b.Op {
			continue // its operands are left out one by one
		}
		if f.ignores(e, neutral) {
			continue
		}
		id, ok := f.add(operand, e, "operand "+f.source(e), neutral)
		switch {
		case ok && b.Op == token.LAND:
			f.wrap(e, "(mutantOn("+id+") || (", "))")
		case ok:
			f.wrap(e, "(!mutantOn("+id+") && (", "))")
		}
	}
}
