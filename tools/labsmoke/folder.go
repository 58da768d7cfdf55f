package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
)

// folder is one or several parsed packages: their files, and the file of each top-level name, qualified as other
// packages name it, and of each method.
type folder struct {
	files          map[string]*ast.File
	names, methods map[string]string
}

func parseFolder(root string, dirs ...string) (*folder, error) {
	f := &folder{map[string]*ast.File{}, map[string]string{}, map[string]string{}}
	for _, dir := range dirs {
		if err := f.parse(root, dir); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *folder) parse(root, dir string) error {
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%s has no Go files (%v)", dir, err)
	}
	linux := build.Default
	linux.GOOS = "linux"
	for _, name := range names {
		match, err := linux.MatchFile(filepath.Split(name))
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") || !match {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		at := path.Join(dir, filepath.Base(name))
		f.files[at] = file
		for _, d := range file.Decls {
			f.declare(at, d)
		}
	}
	return nil
}

func (f *folder) declare(at string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			f.methods[d.Name.Name] = at
		} else {
			f.names[named(at, d.Name.Name)] = at
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				f.names[named(at, spec.Name.Name)] = at
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					f.names[named(at, name.Name)] = at
				}
			}
		}
	}
}

// named returns how the files of other packages name what a file declares.
func named(file, name string) string { return path.Base(path.Dir(file)) + "." + name }

// used returns the files of the functions and methods that a file calls, and of the types and values that it names.
func (f *folder) used(file string) []string {
	var all []string
	fields := map[*ast.Ident]bool{} // the names after a dot, which are no names of the package
	add := func(at string) {
		if at != "" {
			all = append(all, at)
		}
	}
	ast.Inspect(f.files[file], func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if method, ok := n.Fun.(*ast.SelectorExpr); ok {
				add(f.methods[method.Sel.Name])
			}
		case *ast.SelectorExpr:
			fields[n.Sel] = true
			if pkg, ok := n.X.(*ast.Ident); ok {
				add(f.names[pkg.Name+"."+n.Sel.Name])
			}
		case *ast.Ident:
			if !fields[n] {
				add(f.names[named(file, n.Name)])
			}
		}
		return true
	})
	return all
}

// called returns the names of the functions that the named one calls, in order.
func called(file *ast.File, name string) (names []string) {
	if file == nil {
		return nil
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name {
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if id, ok := call.Fun.(*ast.Ident); ok {
						names = append(names, id.Name)
					}
				}
				return true
			})
		}
	}
	return names
}
