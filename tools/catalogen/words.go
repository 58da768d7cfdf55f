package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// words are the closed vocabularies: the Go constant of every word, by type and value. Those that the catalogue
// declares come from its rows, the others from constants in the packages of the tables. Constants without a type are
// listed under the prefix of their names: "Agent..." for AgentStale.
type words map[string]map[string]string

// noun is the name in messages for a word of the type.
func noun(typ string) string {
	return cmp.Or(map[string]string{
		"HopID": "hop", "ReasonCode": "reason", "UserState": "user state", "UserAction": "user action",
		"Reliance": "need", "Word": "verdict", "Agent...": "agent status", "Terminal...": "terminal readiness",
		"at...": "place of a repair",
	}[typ], strings.ToLower(typ))
}

func (w words) add(typ, value, name string) {
	if w[typ] == nil {
		w[typ] = map[string]string{}
	}
	w[typ][value] = name
}

// untyped are the prefixes of constants without a type.
var untyped = [...]string{"Agent", "Terminal", "Fact", "at"}

// constants adds the string constants of the Go files in folder that are not generated.
func (w words) constants(folder string) error {
	files, err := sources(folder)
	for _, file := range files {
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				w.declared(g)
			}
		}
	}
	return err
}

// sources parses the Go files in folder that are neither tests nor generated.
func sources(folder string) (files []*ast.File, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, suffix) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func (w words) declared(g *ast.GenDecl) {
	for _, s := range g.Specs {
		spec, ok := s.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
			continue
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		value, err := strconv.Unquote(lit.Value)
		if err != nil {
			continue
		}
		name := spec.Names[0].Name
		if typ, ok := spec.Type.(*ast.Ident); ok {
			w.add(typ.Name, value, name)
			continue
		}
		for _, family := range untyped {
			if strings.HasPrefix(name, family) {
				w.add(family+"...", value, name)
			}
		}
	}
}
