package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaasctl/tools/mutants/program"
)

// subject is a package whose mutations are tried.
type subject struct {
	folder string // absolute
	name   string
	rel    string // from the module's root, with slashes
	rapid  bool   // its tests have properties
	info   *types.Info
	set    *token.FileSet
	files  []source
}

type source struct {
	path string // absolute
	rel  string
	text []byte
	tree *ast.File
}

// listed is what go list prints of a package.
type listed struct {
	Dir, ImportPath, Name, Export string
	GoFiles                       []string
	TestImports, XTestImports     []string
	DepOnly                       bool
	Module                        *struct{ Dir string }
	Error                         *struct{ Err string }
}

// load reads the package in the folder, with the types of what it imports.
func load(ctx context.Context, folder string) (*subject, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-export", "-deps",
		"-json=Dir,ImportPath,Name,Export,GoFiles,TestImports,XTestImports,DepOnly,Module,Error", ".")
	cmd.Dir = folder
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w: %s", folder, err, stderr.Bytes())
	}
	exports := map[string]string{}
	var own listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", folder, err)
		}
		if p.Error != nil {
			return nil, fmt.Errorf("go list in %s: %s", folder, p.Error.Err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			own = p
		}
	}
	if own.Module == nil {
		return nil, fmt.Errorf("%s is in no module", folder)
	}
	rel, err := filepath.Rel(own.Module.Dir, own.Dir)
	if err != nil {
		return nil, err
	}
	s := &subject{folder: own.Dir, name: own.Name, rel: filepath.ToSlash(rel), set: token.NewFileSet(),
		rapid: slices.Contains(slices.Concat(own.TestImports, own.XTestImports), "pgregory.net/rapid"),
		info:  &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}}
	trees := make([]*ast.File, len(own.GoFiles))
	for i, name := range own.GoFiles {
		src := source{path: filepath.Join(own.Dir, name), rel: filepath.ToSlash(filepath.Join(rel, name))}
		if src.text, err = os.ReadFile(src.path); err != nil {
			return nil, err
		}
		if src.tree, err = parser.ParseFile(s.set, src.path, src.text,
			parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		s.files, trees[i] = append(s.files, src), src.tree
	}
	config := types.Config{Importer: importer.ForCompiler(s.set, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(exports[path])
	})}
	if _, err := config.Check(own.ImportPath, s.set, trees, s.info); err != nil {
		return nil, fmt.Errorf("check the types of %s: %w", rel, err)
	}
	return s, nil
}

// place is a line of a file, by its absolute path.
type place struct {
	path string
	line int
}

// find returns the mutations of the package, and the overlay that has them behind switches. Generated files have none.
// Lines in skip are left as they are.
func (s *subject) find(skip map[place]bool) ([]mutation, program.Overlay) {
	over := program.Overlay{Copies: map[string][]byte{}, Packages: map[string]string{s.folder: s.name}}
	var all []mutation
	for _, src := range s.files {
		if ast.IsGenerated(src.tree) {
			continue
		}
		f := &finder{set: s.set, info: s.info, name: src.rel, text: src.text,
			next:    func() int { over.Highest++; return over.Highest },
			without: func(m mutation) bool { return skip[place{src.path, m.line}] },
		}
		f.file(src.tree)
		all = append(all, f.found...)
		over.Copies[src.path] = f.edits.Apply(src.text)
	}
	return all, over
}

// compiled is a package's program, and the mutations that it has.
type compiled struct {
	*program.Program
	all     []mutation
	skipped int // lines that cannot be compiled with a switch
}

// maxTries is how often a package is compiled: a line that the compiler refuses is left out the next time.
const maxTries = 6

// refused matches a message of the compiler.
var refused = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `)

// compile compiles the tests of the package with all of its mutations.
func (s *subject) compile(ctx context.Context, temp string) (compiled, error) {
	skip := map[place]bool{}
	for try := 1; ; try++ {
		all, over := s.find(skip)
		dir := filepath.Join(temp, strconv.Itoa(try))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return compiled{}, err
		}
		p, err := over.Compile(ctx, s.folder, dir)
		if err == nil {
			return compiled{p, all, len(skip)}, nil
		}
		before := len(skip)
		for _, m := range refused.FindAllStringSubmatch(err.Error(), -1) {
			line, _ := strconv.Atoi(m[2])
			base := filepath.Base(m[1])
			if i := slices.IndexFunc(s.files, func(f source) bool { return filepath.Base(f.path) == base }); i >= 0 {
				skip[place{s.files[i].path, line}] = true
			}
		}
		if len(skip) == before || try == maxTries {
			return compiled{}, err
		}
	}
}
