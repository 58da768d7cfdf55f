package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostInKnot is how many files of a floor of preflight may all reach each other: to read one of them is to read all.
const mostInKnot = 4

// knotted are the floors with a larger group, with its size: it may shrink, and no floor is added.
var knotted = map[string]int{"hop": 7, "walk": 7}

// TestFilesAreNotKnotted: a file reaches another one if it uses a function, type, variable, constant or method of it.
// Where many files all reach each other, what one of them says cannot be read alone: a declaration is then in the wrong
// file, or is two.
func TestFilesAreNotKnotted(t *testing.T) {
	floors := floorImporter{}
	for _, floor := range []string{"hop", "reading", "world", "hops", "verdict", "walk", "compare"} {
		reaches := floors.reach(t, floor)
		if len(reaches) < 3 {
			t.Fatalf("preflight/%s has %d files", floor, len(reaches))
		}
		knot := largestKnot(reaches)
		switch most := max(mostInKnot, knotted[floor]); {
		case len(knot) > most:
			t.Errorf("%d files of preflight/%s all reach each other, more than %d: %s; move what one of them needs of "+
				"another to the file below both", len(knot), floor, most, strings.Join(knot, ", "))
		case len(knot) < knotted[floor]:
			t.Errorf("%d files of preflight/%s all reach each other: write that into knotted, or remove its entry", len(knot),
				floor)
		}
	}
}

// floorImporter has the floors that were read; any other package is empty, since only a floor's own names count.
type floorImporter map[string]*types.Package

// Import implements types.Importer.
func (floors floorImporter) Import(name string) (*types.Package, error) {
	if floors[name] == nil {
		floors[name] = types.NewPackage(name, path.Base(name))
		floors[name].MarkComplete()
	}
	return floors[name], nil
}

// reach returns for each file of a floor the others that it uses.
func (floors floorImporter) reach(t *testing.T, floor string) map[string][]string {
	t.Helper()
	names, err := filepath.Glob("../../preflight/" + floor + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: floors, Error: func(error) {}} // names of empty packages
	name := "github.com/gpuaas/gpuaasctl/preflight/" + floor
	floors[name], _ = config.Check(name, fset, files, info)
	fileOf := func(at token.Pos) string { return filepath.Base(fset.Position(at).Filename) }
	reaches := map[string][]string{}
	for _, file := range files {
		reaches[fileOf(file.Pos())] = nil
	}
	for id, used := range info.Uses {
		if used.Pkg() != floors[name] {
			continue
		}
		method := false
		if f, ok := used.(*types.Func); ok {
			method = f.Signature().Recv() != nil
		}
		from, to := fileOf(id.Pos()), fileOf(used.Pos())
		if (method || used.Parent() == used.Pkg().Scope()) && from != to && !slices.Contains(reaches[from], to) {
			reaches[from] = append(reaches[from], to)
		}
	}
	return reaches
}

// largestKnot returns the largest group of files that all reach each other.
func largestKnot(reaches map[string][]string) []string {
	all := map[string]map[string]bool{}
	for from := range reaches {
		seen := map[string]bool{}
		for todo := slices.Clone(reaches[from]); len(todo) > 0; todo = todo[1:] {
			if !seen[todo[0]] {
				seen[todo[0]] = true
				todo = append(todo, reaches[todo[0]]...)
			}
		}
		all[from] = seen
	}
	var largest []string
	for a := range all {
		var knot []string
		for b := range all {
			if all[a][b] && all[b][a] {
				knot = append(knot, b)
			}
		}
		if len(knot) > len(largest) {
			largest = knot
		}
	}
	slices.Sort(largest)
	return largest
}
