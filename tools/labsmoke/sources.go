package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
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
	"github.com/gpuaas/gpuaasctl/preflight/hops"
)

const module = "github.com/gpuaas/gpuaasctl/"

// The packages that hops, probes, logins and changes of machines are in.
const (
	hopsFolder, worldFolder    = "preflight/hops", "preflight/world"
	loginFolder                = "preflight/vantage"
	kindsFolder, changesFolder = "chaos", "chaos/node"
)

var probeFolders = [...]string{"preflight/probe/net", "preflight/probe/host"}

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
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.readHops(root), s.readProbes(root), s.readKinds(root), s.readChanges(root))
}

// readHops finds the file that makes each hop, those of its functions, and those that these use.
func (s *sources) readHops(root string) error {
	judges, err := parseFolder(root, hopsFolder, worldFolder)
	if err != nil {
		return err
	}
	constructors := called(judges.files[hopsFolder+"/chain.go"], "newChain")
	chain := hops.BuiltIn().List()
	if len(constructors) != len(chain) {
		return fmt.Errorf("newChain calls %d functions for %d hops", len(constructors), len(chain))
	}
	for _, h := range chain {
		var own []string
		functions(reflect.ValueOf(h), func(file string) { own = append(own, inModule(root, file)) })
		s.hops[h.ID] = slices.DeleteFunc(own, func(f string) bool { return judges.files[f] == nil })
	}
	withoutShared(s.hops)
	for i, h := range chain { // however many other hops use it
		s.hops[h.ID] = append(s.hops[h.ID], judges.names["hops."+constructors[i]])
	}
	withUsed(judges, s.hops)
	return nil
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
	if rel, err := filepath.Rel(root, file); err == nil && filepath.IsAbs(file) {
		return filepath.ToSlash(rel)
	}
	return strings.TrimPrefix(file, module)
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

// withUsed adds the files that these files use, and few others.
func withUsed[K comparable](f *folder, files map[K][]string) {
	used := map[K][]string{}
	for k := range files {
		for _, file := range files[k] {
			used[k] = append(used[k], f.used(file)...)
		}
	}
	withoutShared(used)
	for k := range files {
		files[k] = append(files[k], used[k]...)
		slices.Sort(files[k])
		files[k] = slices.Compact(files[k])
	}
}

// readProbes finds the method of each operation in the switches of the probers. The login's operation is the vantage's.
func (s *sources) readProbes(root string) error {
	consts, err := opConstants(root)
	if err != nil {
		return err
	}
	for _, folder := range probeFolders {
		probes, err := parseFolder(root, folder)
		if err != nil {
			return err
		}
		found := map[diag.Op][]string{}
		for _, file := range probes.files {
			ast.Inspect(file, func(n ast.Node) bool {
				if op, method := returned(n); method != "" && consts[op] != "" {
					found[consts[op]] = []string{probes.methods[method]}
				}
				return true
			})
		}
		withUsed(probes, found)
		maps.Copy(s.ops, found)
	}
	login, err := parseFolder(root, loginFolder)
	if err != nil {
		return err
	}
	for at, file := range login.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if op, ok := n.(*ast.SelectorExpr); ok && op.Sel.Name == "OpSSH" {
				s.ops[diag.OpSSH] = append(s.ops[diag.OpSSH], at)
			}
			return true
		})
	}
	return nil
}

// returned returns the names in a case of a switch that returns a method: "case diag.OpDNS: return p.dns".
func returned(n ast.Node) (constant, method string) {
	c, ok := n.(*ast.CaseClause)
	if !ok || len(c.List) != 1 || len(c.Body) != 1 {
		return "", ""
	}
	op, isOp := c.List[0].(*ast.SelectorExpr)
	back, isReturn := c.Body[0].(*ast.ReturnStmt)
	if !isOp || !isReturn || len(back.Results) != 1 {
		return "", ""
	}
	if m, ok := back.Results[0].(*ast.SelectorExpr); ok {
		return op.Sel.Name, m.Sel.Name
	}
	return "", ""
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
	return eachText(root, kindsFolder, func(at, text string) {
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
	return eachText(root, changesFolder, func(at, text string) {
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
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%s has no Go files (%v)", dir, err)
	}
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
	return nil
}
