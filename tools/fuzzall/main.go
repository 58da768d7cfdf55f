// Command fuzzall runs every fuzzer of the module for some seconds: `make test-fuzz` calls it.
//
//	go run ./tools/fuzzall [-time 3s] [-run EXPRESSION] [PACKAGE...]
//
// It finds fuzzers in the sources, and compiles each package once. An input that fails is written to the package's
// testdata/fuzz, where go test tries it again.
// Exit status: 0 nothing was found, 1 something was, 2 usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("fuzzall", flag.ContinueOnError)
	each := flags.Duration("time", 3*time.Second, "how long each fuzzer runs")
	only := flags.String("run", "", "run fuzzers that match this `EXPRESSION`")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall: -run:", err)
		return 2
	}
	found, err := fuzzers(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		return 1
	}
	code, ran := 0, 0
	for _, p := range found {
		p.names = slices.DeleteFunc(p.names, func(name string) bool { return !match.MatchString(name) })
		if len(p.names) == 0 || (flags.NArg() > 0 && !slices.Contains(flags.Args(), "./"+p.folder)) {
			continue
		}
		ran += len(p.names)
		if err := p.fuzz(ctx, *each); err != nil {
			fmt.Printf("FAIL\t./%s: %v\n", p.folder, err)
			code = 1
		}
	}
	if ran == 0 {
		fmt.Fprintln(os.Stderr, "fuzzall: no fuzzer matches")
		return 2
	}
	fmt.Printf("%d fuzzers\n", ran)
	return code
}

// target is the fuzzers of a package.
type target struct {
	folder string // relative to the module, with slashes
	names  []string
}

// fuzzers finds the fuzzers of all packages under root.
func fuzzers(root string) ([]target, error) {
	var found []target
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") || len(f.Type.Params.List) != 1 {
				continue
			}
			i := slices.IndexFunc(found, func(p target) bool { return p.folder == filepath.ToSlash(folder) })
			if i < 0 {
				i, found = len(found), append(found, target{folder: filepath.ToSlash(folder)})
			}
			found[i].names = append(found[i].names, f.Name.Name)
		}
		return nil
	})
	return found, err
}

// guided compiles this module's packages so that a fuzzer sees which code an input reaches. go test -fuzz does so for
// all others as well, Go's own too, and compiles them all again for it.
const guided = "github.com/gpuaas/gpuaasctl/...=-d=libfuzzer"

// fuzz compiles the package and runs its fuzzers, one after another.
func (p target) fuzz(ctx context.Context, each time.Duration) error {
	dir, err := os.MkdirTemp("", "fuzzall")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "fuzz.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags="+guided, "-o", program, "./"+p.folder)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	var failed []error
	for _, name := range p.names {
		began := time.Now()
		// a minute to minimize one input would leave none to search
		fuzz := exec.CommandContext(ctx, program, "-test.run=^$", "-test.fuzz=^"+name+"$", "-test.fuzztime="+each.String(),
			"-test.fuzzminimizetime=1s", "-test.timeout=5m", "-test.fuzzcachedir="+filepath.Join(dir, "found"))
		fuzz.Dir = p.folder
		out, err := fuzz.CombinedOutput()
		if err != nil {
			fmt.Printf("%s", out) // with the path of the input
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		fmt.Printf("ok\t./%s %s\t%s%s\n", p.folder, name, time.Since(began).Round(100*time.Millisecond), executions(out))
	}
	return errors.Join(failed...)
}

// executions is the number of inputs that were tried, by the last line of a fuzzer's output that has one.
func executions(out []byte) string {
	all := regexp.MustCompile(`execs: \d+`).FindAllString(string(out), -1)
	if len(all) == 0 {
		return ""
	}
	found := regexp.MustCompile(`new interesting: \d+`).FindAllString(string(out), -1)
	return strings.Join(slices.Concat([]string{""}, all[len(all)-1:], found[max(0, len(found)-1):]), "\t")
}
