// Command statements counts the statements of the Go files that people write: wrapping a line is free, a statement is
// not. Tests and generated files do not count.
//
//	go run ./internal/statements [FOLDER]
//
// It prints the statements of each package under FOLDER (".") and their sum.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(root); err != nil {
		fmt.Fprintln(os.Stderr, "statements:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	packages, err := count(root)
	if err != nil {
		return err
	}
	var names []string
	sum := 0
	for name, n := range packages {
		names = append(names, name)
		sum += n
	}
	slices.SortFunc(names, func(a, b string) int { return packages[b] - packages[a] })
	for _, name := range names {
		fmt.Printf("%7d  %s\n", packages[name], name)
	}
	fmt.Printf("%7d  in %d packages\n", sum, len(names))
	return nil
}

// count is the statements of each folder under root that has any.
func count(root string) (map[string]int, error) {
	found := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		found[dir] += statements(file)
		return nil
	})
	return found, err
}

// statements counts every statement but the blocks that only hold others, and every declaration of a package.
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
