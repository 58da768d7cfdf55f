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
// one place. No other code compares an id with a hop's: it uses a field of hop.Hop, or of the hop's row in the
// catalogue. Lists of hops in Needs, After, ExplainedBy, Behind and Reads compare nothing.
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
	used := map[string]bool{}
	for folder, files := range folders {
		for _, find := range hopFinds(fset, folder, files) {
			file, _, _ := strings.Cut(find, ":")
			if _, may := maySingleOut[file]; !may {
				t.Error(find)
			}
			used[file] = true
		}
	}
	for file, why := range maySingleOut {
		if !used[file] {
			t.Errorf("%s singles out no hop: remove its exception (%s)", file, why)
		}
	}
}

// maySingleOut lists the files that name hops in a list or table, with the reasons. None of them is about what a hop
// does: that is in the hop's own file.
var maySingleOut = map[string]string{
	"diag/classify/app.go":      "what a passed or failed hop shows about the workload",
	"diag/classify/evidence.go": "which hops measure the node itself",
	"diag/classify/rows.go":     "what a passed or failed hop shows about a reason",
	"golden/expect.go":          "the expected verdicts of faults are about hops",
	"ops/lifecycle.go":          "the two reads without which nothing is known about a node",
	"ops/session.go":            "a fact of a walk that a use case reads, named in one place",
	"ops/trust.go":              "the hops that a use case asks for",
	"preflight/hop/steps.go":    "one list that several hops have as Behind",
	"preflight/world/tasks.go":  "the result of the walk's own task, which is one hop's",
	"diag/trust/inputs.go":      "the facts of a walk that a trust table consists of, named in one place",
}

// TestTheHopRuleCanFail: every way to single out a hop is found, and other code is not.
func TestTheHopRuleCanFail(t *testing.T) {
	for body, want := range map[string]int{
		`_ = h.ID == diag.HopNodeReadiness`:                                               1,
		`_ = diag.HopNodeReadiness != h.ID`:                                               1,
		`_ = h.ID == "node_readiness"`:                                                    1,
		`_ = f.ID == string(diag.HopNodeReadiness)+"/disk"`:                               1,
		`_ = f.ID == hop.FactID(diag.HopNodeReadiness, "disk")`:                           1,
		`switch h.ID { case diag.HopAppUserRoute, diag.HopNodeReadiness: }`:               1,
		`_ = slices.Contains(ids, diag.HopNodeReadiness)`:                                 1,
		`_ = slices.Contains([]diag.HopID{diag.HopNodeReadiness}, h.ID)`:                  2,
		`mine := []diag.HopID{diag.HopNodeReadiness}; _ = slices.Contains(mine, h.ID)`:    1,
		`ids := []string{"node_readiness"}; for _, id := range ids {}`:                    1,
		`use([]diag.HopID{diag.HopNodeReadiness})`:                                        1,
		`for _, id := range [...]diag.HopID{diag.HopNodeReadiness} {}`:                    1,
		`for _, id := range append([]string{"node_readiness"}, ids...) {}`:                1,
		`for _, id := range []string{hop.FactID(diag.HopNodeReadiness, "disk")} {}`:       1,
		`_ = []place{{diag.HopNodeReadiness, "disk"}, {diag.HopAppUserRoute, "route"}}`:   2,
		`_ = place{string(diag.HopNodeReadiness), "disk"}`:                                1,
		`one := diag.HopNodeReadiness; _ = one == h.ID`:                                   1,
		`_ = strings.HasPrefix(f.ID, string(diag.HopNodeReadiness))`:                      1,
		`_ = map[diag.HopID]int{diag.HopNodeReadiness: 1, diag.HopAppUserRoute: 2}`:       1,
		`_ = rows[diag.HopNodeReadiness]`:                                                 1,
		`_ = slices.Index(diag.Hops[:], diag.HopNodeReadiness)`:                           1,
		`_ = c.Fact(diag.HopNodeReadiness, "disk") == nil`:                                0,
		`_ = c.facts[hop.FactID(diag.HopNodeReadiness, "disk")]`:                          0,
		`_ = c.facts[hop.FactID(diag.HopNodeReadiness, "disk")+"~pinned"]`:                0,
		`_ = Step{Needs: []diag.HopID{diag.HopNodeReadiness}}`:                            0,
		`_ = Step{After: []string{hop.FactID(diag.HopNodeReadiness, "disk")}}`:            0,
		`_ = Hop{ExplainedBy: append([]diag.HopID{diag.HopNodeReadiness}, more...)}`:      0,
		`_ = []*diag.Fact{c.Fact(diag.HopNodeReadiness, "disk")}`:                         0,
		`id := diag.HopNodeReadiness; _ = []diag.HopID{id}`:                               0,
		"}\nconst disk = string(diag.HopNodeReadiness) + \"/disk\"\nfunc g() {":           1,
		"}\nvar asked = [...]diag.HopID{diag.HopNodeReadiness}\nfunc g() {":               1,
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
		if (folder == "diag" && strings.HasPrefix(name, "classify")) || strings.HasSuffix(name, "_gen.go") {
			continue // the classifier's rules, and the catalogue's own tables
		}
		found := func(n ast.Node, what string) string {
			return fmt.Sprintf("%s/%s:%d: %s singles out a hop: make it a property of the hop (hop.Hop, or its row of "+
				"the catalogue)", folder, name, fset.Position(n.Pos()).Line, what)
		}
		lists := hopLists{inDiag: folder == "diag"}
		if folder == "preflight/hops" {
			lists.own = ownHop(file)
		}
		for _, decl := range file.Decls {
			lists.names, lists.given = map[string]bool{}, map[ast.Node]bool{}
			if vars, ok := decl.(*ast.GenDecl); ok && lists.declares(vars) {
				finds = append(finds, found(vars, "a declaration"))
				continue
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				lists.bind(n)
				if what := lists.singled(n); what != "" {
					finds = append(finds, found(n, what))
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
	inDiag bool              // where the constants have no package name
	own    string            // the constant of the file's own hop, which may be singled out there
	names  map[string]bool   // variables of this declaration that hold one
	given  map[ast.Node]bool // lists that a variable or a relation holds: only their use can single out a hop
}

// declares reports whether a declaration of the package holds a hop's id, or a list of ids.
func (l *hopLists) declares(d *ast.GenDecl) bool {
	return slices.ContainsFunc(d.Specs, func(s ast.Spec) bool {
		v, ok := s.(*ast.ValueSpec)
		return ok && slices.ContainsFunc(v.Values, l.is)
	})
}

// relations are the fields of hops, steps and requests for a walk that list other hops, or facts of other hops.
var relations = []string{"Needs", "After", "ExplainedBy", "Behind", "Reads", "Only", "With"}

// bind records a variable that is assigned a hop's id, or a list of ids.
func (l *hopLists) bind(n ast.Node) {
	assigned, ok := n.(*ast.AssignStmt)
	if !ok || len(assigned.Lhs) != len(assigned.Rhs) {
		return
	}
	for i, to := range assigned.Lhs {
		if id, ok := to.(*ast.Ident); ok && l.is(assigned.Rhs[i]) {
			l.names[id.Name], l.given[assigned.Rhs[i]] = true, true
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
		id := strings.HasPrefix(strings.TrimPrefix(types.ExprString(n.Index), "hop."), "FactID(") // of a fact
		if l.is(n.Index) && !id {
			return "an index"
		}
	case *ast.RangeStmt:
		if list, variable := n.X.(*ast.Ident); variable && l.is(list) {
			return "range"
		}
	case *ast.KeyValueExpr:
		if field, ok := n.Key.(*ast.Ident); ok && slices.Contains(relations, field.Name) {
			ast.Inspect(n.Value, func(in ast.Node) bool {
				l.given[in] = true
				return true
			})
		}
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			if row, ok := e.(*ast.KeyValueExpr); ok && l.is(row.Key) {
				return "a table"
			}
			if _, variable := e.(*ast.Ident); l.is(e) && !l.given[n] && (l.inDiag || !variable) {
				return "a list"
			}
		}
	}
	return ""
}

// is reports whether an expression is a hop's id, a fact's id below one, or a list of hops' ids. The result of a call
// is none of these, except for conversions and FactID.
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
		f := types.ExprString(e.Fun)
		return (f == "string" || f == "FactID" || f == "hop.FactID") && slices.ContainsFunc(e.Args, l.is)
	}
	return false
}

// constant reports whether a name is package diag's constant for a hop.
func constant(name string) bool {
	rest, ok := strings.CutPrefix(name, "Hop")
	return ok && rest != "" && rest != "ID" && rest != "Result" && rest != "s"
}
