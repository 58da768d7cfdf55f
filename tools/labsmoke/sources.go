package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
)

const module = "github.com/gpuaas/gpuaasctl/"

// sources are the files of what a row exercises: paths in the module, with slashes.
type sources struct {
	hops    map[diag.HopID][]string
	ops     map[diag.Op][]string
	kinds   map[string]string
	changes map[string][]string // by kind of change, see step.Change
}

// sharedBy is the number of hops, or of operations, from which a file is no longer theirs: every walk exercises it.
const sharedBy = 4

func readSources(root string) (*sources, error) {
	s := &sources{hops: map[diag.HopID][]string{}, ops: map[diag.Op][]string{}}
	judges, err := parseFolder(root, "preflight")
	if err != nil {
		return nil, err
	}
	owns := map[diag.HopID][]string{}
	for _, h := range preflight.Chain() {
		var own []string
		functions(reflect.ValueOf(h), func(file string) { own = append(own, inModule(root, file)) })
		own = slices.DeleteFunc(own, func(f string) bool { return judges.uses[f] == nil })
		s.hops[h.ID], owns[h.ID] = judges.with(own), own
	}
	withoutShared(s.hops)
	for hop, own := range owns { // also those that others use
		s.hops[hop] = append(s.hops[hop], own...)
	}
	if err := s.readProbes(root); err != nil {
		return nil, err
	}
	return s, errors.Join(s.readKinds(root), s.readChanges(root))
}

// functions calls visit with the file of each function that v holds.
func functions(v reflect.Value, visit func(file string)) {
	switch v.Kind() {
	case reflect.Func:
		if !v.IsNil() {
			file, _ := runtime.FuncForPC(v.Pointer()).FileLine(v.Pointer())
			visit(file)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			functions(v.Field(i), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			functions(v.Index(i), visit)
		}
	case reflect.Pointer:
		functions(v.Elem(), visit)
	}
}

// inModule returns a compiled file's path in the module, built with -trimpath or without.
func inModule(root, file string) string {
	file = strings.TrimPrefix(file, module)
	abs, err := filepath.Abs(root)
	if err != nil || !filepath.IsAbs(file) {
		return file
	}
	rel, err := filepath.Rel(abs, file)
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}

// withoutShared removes the files that belong to many keys, and duplicates.
func withoutShared[K comparable](files map[K][]string) {
	by := map[string]int{}
	for k := range files {
		slices.Sort(files[k])
		files[k] = slices.Compact(files[k])
		for _, f := range files[k] {
			by[f]++
		}
	}
	for k := range files {
		files[k] = slices.DeleteFunc(files[k], func(f string) bool { return by[f] >= sharedBy })
	}
}

// folder is a parsed package.
type folder struct {
	files    map[string]*ast.File
	declares map[string]string          // the file of a top-level name or a method
	uses     map[string]map[string]bool // names that a file has
}

func parseFolder(root, dir string) (*folder, error) {
	f := &folder{map[string]*ast.File{}, map[string]string{}, map[string]map[string]bool{}}
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("%s has no Go files (%v)", dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		at := path.Join(dir, filepath.Base(name))
		f.files[at], f.uses[at] = file, map[string]bool{}
		for _, d := range file.Decls {
			f.declare(at, d)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				f.uses[at][id.Name] = true
			}
			return true
		})
	}
	return f, nil
}

func (f *folder) declare(at string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		f.declares[d.Name.Name] = at
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				f.declares[spec.Name.Name] = at
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					f.declares[name.Name] = at
				}
			}
		}
	}
}

// with returns files, and the files that declare what they use.
func (f *folder) with(files []string) []string {
	all := slices.Clone(files)
	for _, file := range files {
		for name := range f.uses[file] {
			if at := f.declares[name]; at != "" {
				all = append(all, at)
			}
		}
	}
	return all
}

// readProbes finds the method of each operation in the table of package probe. The login's operation is the vantage's.
func (s *sources) readProbes(root string) error {
	probes, err := parseFolder(root, "preflight/probe")
	if err != nil {
		return err
	}
	consts, err := opConstants(root)
	if err != nil {
		return err
	}
	for _, file := range probes.files {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || len(lit.Elts) != 2 {
				return true
			}
			op, isOp := lit.Elts[0].(*ast.SelectorExpr)
			method, isMethod := lit.Elts[1].(*ast.SelectorExpr)
			if isOp && isMethod && consts[op.Sel.Name] != "" {
				s.ops[consts[op.Sel.Name]] = probes.with([]string{probes.declares[method.Sel.Name]})
			}
			return true
		})
	}
	withoutShared(s.ops)
	login, err := parseFolder(root, "preflight/vantage")
	if err != nil {
		return err
	}
	for at, names := range login.uses {
		if names["OpSSH"] {
			s.ops[diag.OpSSH] = append(s.ops[diag.OpSSH], at)
		}
	}
	return nil
}

// opConstants returns the operations by the names of their constants.
func opConstants(root string) (map[string]diag.Op, error) {
	types, err := parseFolder(root, "diag")
	if err != nil {
		return nil, err
	}
	ops := map[string]diag.Op{}
	for _, file := range types.files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				ops[spec.Names[0].Name] = diag.Op(strings.Trim(lit.Value, `"`))
			}
			return true
		})
	}
	return ops, nil
}

// readKinds finds the file that declares each kind of fault.
func (s *sources) readKinds(root string) error {
	s.kinds = map[string]string{}
	return eachText(root, "chaos", func(at, text string) {
		for _, k := range chaos.Kinds() {
			if strings.Contains(text, fmt.Sprintf("Name: %q, Title: ", k.Name)) {
				s.kinds[k.Name] = at
			}
		}
	})
}

var changeUsed = regexp.MustCompile(`\bChange\.(Block|File|Mount|Unit|Pause|Hold|Run)\b`)

// readChanges finds the files in which gpuaas-fault makes each kind of change.
func (s *sources) readChanges(root string) error {
	s.changes = map[string][]string{}
	return eachText(root, "chaos/node", func(at, text string) {
		if !strings.HasPrefix(path.Base(at), "place_") {
			return
		}
		for _, found := range changeUsed.FindAllStringSubmatch(text, -1) {
			kind := strings.ToLower(found[1])
			if !slices.Contains(s.changes[kind], at) {
				s.changes[kind] = append(s.changes[kind], at)
			}
		}
	})
}

// eachText visits the sources of a folder.
func eachText(root, dir string, visit func(at, text string)) error {
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		visit(path.Join(dir, filepath.Base(name)), string(text))
	}
	return err
}
