// Notices writes the licenses of everything that is linked into programs: of Go, and of each module. `make dist` calls
// it once for all systems. It downloads nothing: the texts are in Go's module cache, from which the programs are built.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const own = "github.com/gpuaas/gpuaasctl"

// systems are those that make dist builds for: some modules are linked on one of them only.
var systems = []string{"linux", "darwin"}

// module is a module as go list describes it.
type module struct {
	Path, Version, Dir string
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// run writes the notices of packages to FILE.
func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("want a FILE and at least one PACKAGE")
	}
	modules, err := linked(ctx, args[1:])
	if err != nil {
		return err
	}
	root, err := golang(ctx, "", "env", "GOROOT")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := write(&b, append([]module{{Path: "Go", Dir: strings.TrimSpace(string(root))}}, modules...)); err != nil {
		return err
	}
	return os.WriteFile(args[0], b.Bytes(), 0o644) //nolint:gosec // read by anybody
}

// listed is a package as go list describes it.
type listed struct {
	ImportPath string
	Module     *module
	DepOnly    bool                  // no argument names it
	Error      *struct{ Err string } // why it cannot be loaded
}

// linked returns the modules that packages link on any of the systems, without our own, sorted by path.
// With -e, since the agent is for Linux only: a package must be one of some system, and a module that is not there has
// no folder, which write reports.
func linked(ctx context.Context, packages []string) ([]module, error) {
	all, loaded, failed := map[string]module{}, map[string]bool{}, map[string]string{}
	for _, system := range systems {
		args := []string{"list", "-e", "-deps", "-json=ImportPath,Module,DepOnly,Error"}
		out, err := golang(ctx, system, append(args, packages...)...)
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p listed
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read what go list printed: %w", err)
			}
			switch {
			case p.Error == nil && !p.DepOnly:
				loaded[p.ImportPath] = true
			case p.Error != nil && !p.DepOnly:
				failed[p.ImportPath] = p.Error.Err
			}
			if p.Module != nil && p.Module.Path != own {
				all[p.Module.Path] = *p.Module
			}
		}
	}
	for path, why := range failed {
		if !loaded[path] {
			return nil, fmt.Errorf("list %s: %s", path, why)
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b module) int { return strings.Compare(a.Path, b.Path) }), nil
}

// golang runs go for a system, "" for this one, and returns its output. With cgo, as gpuaas-gpu-probe is built where it
// can be: what needs it is listed without a compiler.
func golang(ctx context.Context, system string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=1"), os.Stderr
	if system != "" {
		cmd.Env = append(cmd.Env, "GOOS="+system)
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// licenseName matches a file with the terms of a module, or with notices that have to be passed on.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

// write writes the texts of modules. A module without a license is an error.
func write(w io.Writer, modules []module) error {
	for _, m := range modules {
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			return fmt.Errorf("read the license of %s: %w", m.Path, err)
		}
		licensed := false
		for _, e := range entries {
			if e.IsDir() || !licenseName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
			if err != nil {
				return fmt.Errorf("read the license of %s: %w", m.Path, err)
			}
			licensed = licensed || len(bytes.TrimSpace(text)) > 0
			title := strings.Join(strings.Fields(m.Path+" "+m.Version+" "+e.Name()), " ")
			fmt.Fprintf(w, "%s\n%s\n\n%s\n\n", strings.Repeat("=", 80), title, bytes.TrimSpace(text))
		}
		if !licensed {
			return fmt.Errorf("%s has no file with a license in %s", m.Path, m.Dir)
		}
	}
	return nil
}
