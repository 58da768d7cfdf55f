// Command statements counts the statements of the Go files that people write: wrapping a line is free, a statement is
// not. Generated files and testdata do not count.
//
//	go run ./tools/statements [FOLDER [OLDER]]
//
// It prints the statements of each package under FOLDER ("."), those of its tests in a second column, and their sums.
// With OLDER, a tree of an earlier commit (git archive), it prints what was added since.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// number is the statements of a package and of its tests.
type number struct{ code, tests int }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "statements:", err)
		os.Exit(1)
	}
}

func run(folders []string) error {
	if len(folders) == 0 {
		folders = []string{"."}
	}
	packages := map[string]number{}
	for i, root := range folders[:min(len(folders), 2)] {
		if err := count(packages, root, 1-2*i); err != nil {
			return err
		}
	}
	var sum number
	names := slices.Collect(maps.Keys(packages))
	slices.SortFunc(names, func(a, b string) int { return packages[b].code - packages[a].code })
	for _, name := range names {
		n := packages[name]
		fmt.Printf("%7d %7d  %s\n", n.code, n.tests, name)
		sum.code, sum.tests = sum.code+n.code, sum.tests+n.tests
	}
	fmt.Printf("%7d %7d  (tests) in %d packages\n", sum.code, sum.tests, len(names))
	return nil
}

// count adds the statements of each folder under root to found, multiplied by sign.
func count(found map[string]number, root string, sign int) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		n := found[dir]
		if strings.HasSuffix(path, "_test.go") {
			n.tests += sign * statements(file)
		} else {
			n.code += sign * statements(file)
		}
		found[dir] = n
		return err
	})
}

// statements counts every statement except blocks, which only contain others, and every declaration of a package.
func statements(file *ast.File) int {
	n := len(file.Decls)
	ast.Inspect(file, func(node ast.Node) bool {
		switch node.(type) {
		case *ast.BlockStmt, *ast.EmptyStmt:
		case ast.Stmt:
			n++
		}
		return true
	})
	return n
}
