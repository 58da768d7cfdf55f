package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestAHopOwnsItself: everything special about one hop is in its own file, so that a hop is added, changed and read in
// one place. No other code compares an id with a hop's: it uses a field of preflight.Hop, or of the hop's row in the
// catalogue. Lists of hops in Needs, After, ExplainedBy and Behind compare nothing.
func TestAHopOwnsItself(t *testing.T) {
	root := filepath.Join("..", "..")
	fset := token.NewFileSet()
	folders := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		folders[filepath.ToSlash(folder)] = append(folders[filepath.ToSlash(folder)], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, files := range folders {
		for _, find := range hopFinds(fset, folder, files) {
			t.Error(find)
		}
	}
}

// TestTheHopRuleCanFail: every way to single out a hop is found, and other code is not.
func TestTheHopRuleCanFail(t *testing.T) {
	for body, want := range map[string]int{
		`_ = h.ID == diag.HopNodeReadiness`:                                               1,
		`_ = diag.HopNodeReadiness != h.ID`:                                               1,
		`_ = h.ID == "node_readiness"`:                                                    1,
		`_ = f.ID == string(diag.HopNodeReadiness)+"/disk"`:                               1,
		`_ = f.ID == factID(diag.HopNodeReadiness, "disk")`:                               1,
		`switch h.ID { case diag.HopAppUserRoute, diag.HopNodeReadiness: }`:               1,
		`_ = slices.Contains(ids, diag.HopNodeReadiness)`:                                 1,
		`_ = slices.Contains([]diag.HopID{diag.HopNodeReadiness}, h.ID)`:                  1,
		`mine := []diag.HopID{diag.HopNodeReadiness}; _ = slices.Contains(mine, h.ID)`:    1,
		`one := diag.HopNodeReadiness; _ = one == h.ID`:                                   1,
		`_ = strings.HasPrefix(f.ID, string(diag.HopNodeReadiness))`:                      1,
		`_ = map[diag.HopID]int{diag.HopNodeReadiness: 1, diag.HopAppUserRoute: 2}`:       1,
		`_ = rows[diag.HopNodeReadiness]`:                                                 1,
		`_ = slices.Index(diag.Hops[:], diag.HopNodeReadiness)`:                           1,
		`_ = c.Fact(diag.HopNodeReadiness, "disk") == nil`:                                0,
		`_ = c.facts[factID(diag.HopNodeReadiness, "disk")]`:                              0,
		`_ = c.facts[factID(diag.HopNodeReadiness, "disk")+"~pinned"]`:                    0,
		`_ = Step{Needs: []diag.HopID{diag.HopNodeReadiness}}`:                            0,
		`_ = hopNamed(hops, diag.HopNodeReadiness).Status == diag.StatusPass`:             0,
		`switch c.Field(diag.HopNodeReadiness, "disk", "x") { case "a": }`:                0,
		`_ = ev.Kind == preflight.HopDone`:                                                0,
		`id := diag.HopNodeReadiness; _ = c.Fact(id, "disk") == nil`:                      0,
		`id := diag.HopNodeReadiness; _ = Hop{ID: id}; if h.ID == other { return id, 1 }`: 0,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x\nfunc f() {\n"+body+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got := hopFinds(fset, "x", []*ast.File{file}); len(got) != want {
			t.Errorf("%s: %q, want %d finds", body, got, want)
		}
	}
}

// hopFinds lists the places of a package that single out a hop outside its own file. The classifier's rules are about
// hops, and are exempt.
func hopFinds(fset *token.FileSet, folder string, files []*ast.File) []string {
	var finds []string
	for _, file := range files {
		name := filepath.Base(fset.Position(file.Pos()).Filename)
		if folder == "diag" && strings.HasPrefix(name, "classify") {
			continue
		}
		lists := hopLists{inDiag: folder == "diag"}
		if strings.HasPrefix(name, "hop_") {
			lists.own = ownHop(file)
		}
		for _, decl := range file.Decls {
			lists.names = map[string]bool{}
			ast.Inspect(decl, func(n ast.Node) bool {
				lists.bind(n)
				if what := lists.singled(n); what != "" {
					at := fset.Position(n.Pos())
					finds = append(finds, fmt.Sprintf("%s/%s:%d: %s singles out a hop: let the hop say it itself "+
						"(preflight.Hop, or its row of the catalogue)", folder, name, at.Line, what))
				}
				return true
			})
		}
	}
	return finds
}

// ownHop returns the constant of the hop that a file declares, as "id := diag.HopX" or "Hop{ID: diag.HopX"; "" if it
// declares none.
func ownHop(file *ast.File) string {
	own := ""
	named := func(name, value ast.Expr, want string) {
		id, ok := name.(*ast.Ident)
		if of, sel := value.(*ast.SelectorExpr); ok && sel && id.Name == want && constant(of.Sel.Name) {
			own = of.Sel.Name
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			named(n.Lhs[0], n.Rhs[0], "id")
		case *ast.KeyValueExpr:
			named(n.Key, n.Value, "ID")
		}
		return own == ""
	})
	return own
}

// hopLists recognizes expressions that are a hop's id, or a list of ids.
type hopLists struct {
	inDiag bool            // where the constants have no package name
	own    string          // the constant of the file's own hop, which may be singled out there
	names  map[string]bool // variables of this declaration that hold one
}

// bind records a variable that is assigned a hop's id, or a list of ids.
func (l *hopLists) bind(n ast.Node) {
	assigned, ok := n.(*ast.AssignStmt)
	if !ok || len(assigned.Lhs) != len(assigned.Rhs) {
		return
	}
	for i, to := range assigned.Lhs {
		if id, ok := to.(*ast.Ident); ok && l.is(assigned.Rhs[i]) {
			l.names[id.Name] = true
		}
	}
}

// singled returns how an expression or statement singles out a hop, or "".
func (l *hopLists) singled(n ast.Node) string {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if (n.Op == token.EQL || n.Op == token.NEQ) && (l.is(n.X) || l.is(n.Y)) {
			return n.Op.String()
		}
	case *ast.CaseClause:
		if slices.ContainsFunc(n.List, l.is) {
			return "case"
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.ContainsFunc(n.Args, l.is) {
			of, ok := f.X.(*ast.Ident)
			copies := f.Sel.Name == "Concat" || f.Sel.Name == "Clone"
			if ok && !copies && (of.Name == "slices" || of.Name == "strings") {
				return of.Name + "." + f.Sel.Name
			}
		}
	case *ast.IndexExpr:
		if text := types.ExprString(n.Index); l.is(n.Index) && !strings.HasPrefix(text, "factID(") { // but for a fact's id
			return "an index"
		}
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			if row, ok := e.(*ast.KeyValueExpr); ok && l.is(row.Key) {
				return "a table"
			}
		}
	}
	return ""
}

// is reports whether an expression is a hop's id, a fact's id below one, or a list of hops' ids. The result of a call
// is none of these, except for conversions and factID.
func (l *hopLists) is(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return l.names[e.Name] || (l.inDiag && constant(e.Name))
	case *ast.SelectorExpr:
		of, ok := e.X.(*ast.Ident)
		return ok && of.Name == "diag" && constant(e.Sel.Name) && e.Sel.Name != l.own
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		at, _, _ := strings.Cut(text, "/")
		return err == nil && e.Kind == token.STRING && slices.Contains(diag.HopIDs(), diag.HopID(at))
	case *ast.ParenExpr:
		return l.is(e.X)
	case *ast.SliceExpr:
		return l.is(e.X)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (l.is(e.X) || l.is(e.Y))
	case *ast.CompositeLit:
		_, list := e.Type.(*ast.ArrayType)
		return list && slices.ContainsFunc(e.Elts, l.is)
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.Ident)
		return ok && (f.Name == "string" || f.Name == "factID") && slices.ContainsFunc(e.Args, l.is)
	}
	return false
}

// constant reports whether a name is package diag's constant for a hop.
func constant(name string) bool {
	rest, ok := strings.CutPrefix(name, "Hop")
	return ok && rest != "" && rest != "ID" && rest != "Result" && rest != "s"
}
