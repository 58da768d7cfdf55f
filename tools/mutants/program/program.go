// Package program compiles the tests of a package once with many mutants in them, each behind a switch, and runs them
// with one mutant on. The compiler sees changed copies of the sources (go test -overlay); the real ones stay as they
// are. It does not decide what is changed: the callers, tools/mutants and tools/testkit/mutanttest, write the copies.
package program

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The environment of a program: the number of the mutant that is on, and the file that shows which code is reached. The
// text of switchText has both.
const (
	onVariable      = "GPUAASCTL_MUTANT"
	reachedVariable = "GPUAASCTL_MUTANT_REACHED"
)

// memory is the address space of a program with a mutant. The tests need less than a fourth of it.
const memory = 6 << 30

// switchText is the file that is added to a package: the copies of its sources call what is in it.
//
//go:embed switch.go.txt
var switchText string

// switchFile is the name of that file in its package.
const switchFile = "mutants_switch.go"

// Overlay has the changed copies.
type Overlay struct {
	Copies   map[string][]byte // by the absolute path of the source
	Packages map[string]string // the name of each package whose sources are changed, by its absolute folder
	Highest  int               // the highest number of a mutant; the lowest is 1
}

// Program is a compiled test program.
type Program struct {
	path, folder string
	highest      int
}

// Compile compiles the tests of the package in folder, an absolute path, into the folder temp. flags are more flags of
// go test. The error has the compiler's output.
func (o Overlay) Compile(ctx context.Context, folder, temp string, flags ...string) (*Program, error) {
	replace := map[string]string{}
	write := func(source string, text []byte) error {
		path := filepath.Join(temp, fmt.Sprintf("%d_%s", len(replace), filepath.Base(source)))
		replace[source] = path
		return os.WriteFile(path, text, 0o600)
	}
	for source, text := range o.Copies {
		if err := write(source, text); err != nil {
			return nil, err
		}
	}
	for folder, name := range o.Packages {
		text := strings.NewReplacer("PACKAGE", name, "MEMORY", strconv.Itoa(memory),
			"SIZE", strconv.Itoa(o.Highest+1)).Replace(switchText)
		if err := write(filepath.Join(folder, switchFile), []byte(text)); err != nil {
			return nil, err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	overlay := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return nil, err
	}
	p := &Program{path: filepath.Join(temp, "mutants.test"), folder: folder, highest: o.Highest}
	args := append([]string{"test", "-c", "-vet=off", "-gcflags=-e", "-overlay", overlay, "-o", p.path}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -c in %s: %w\n%s", folder, err, out)
	}
	if _, err := os.Stat(p.path); err != nil {
		return nil, fmt.Errorf("%s has no tests", folder)
	}
	return p, nil
}

// Run is one run of a program.
type Run struct {
	Mutant int           // 0: none
	Limit  time.Duration // ends the program and its children
	Args   []string      // of the program
	Events bool          // the output is events, as of go test -json
	Reach  bool          // which mutants are reached is asked for
}

// Result is what came of a run.
type Result struct {
	Passed  bool
	TimeOut bool // it was ended at its limit
	Took    time.Duration
	Output  []byte
	Reached []byte // not 0 at the number of each mutant whose code was reached; only if it was asked for
}

// Do runs the program in the package's folder, with a temporary folder that is removed afterwards.
func (p *Program) Do(ctx context.Context, r Run) (Result, error) {
	temp, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = removeAll(temp) }()
	if err := os.Chmod(temp, 0o777|os.ModeSticky); err != nil { // as /tmp: a test may start a child as another user
		return Result{}, err
	}
	// As go test does: a test that calls os.Exit(0) has not passed.
	args := append([]string{p.path, "-test.paniconexit0"}, r.Args...)
	if r.Events {
		args = append([]string{"go", "tool", "test2json", "-t"}, append(args, "-test.v=test2json")...)
	}
	limited, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	cmd := exec.CommandContext(limited, args[0], args[1:]...)
	cmd.Dir = p.folder
	cmd.Env = append(os.Environ(), onVariable+"="+strconv.Itoa(r.Mutant), "TMPDIR="+temp, "PWD="+p.folder)
	reached := filepath.Join(temp, "reached")
	if r.Reach {
		if err := os.WriteFile(reached, make([]byte, p.highest+1), 0o600); err != nil {
			return Result{}, err
		}
		cmd.Env = append(cmd.Env, reachedVariable+"="+reached)
	}
	// Children that a test started are in its group, and end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	if cmd.Process == nil {
		return Result{}, err
	}
	result := Result{Passed: err == nil, TimeOut: limited.Err() != nil, Took: time.Since(began), Output: out}
	if r.Reach {
		if result.Reached, err = os.ReadFile(reached); err != nil {
			return Result{}, err
		}
	}
	return result, nil
}

// removeAll removes what a test has left, read-only folders too.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700) //nolint:gosec // a folder of a test that has ended
		}
		return err
	})
	return os.RemoveAll(dir)
}

// Tests returns the tests of the program by name: tests, examples, and fuzzers with their seeds.
func (p *Program) Tests(ctx context.Context) ([]string, error) {
	r, err := p.Do(ctx, Run{Limit: time.Minute, Args: []string{"-test.list=^(Test|Example|Fuzz)"}})
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(r.Output)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "Test") || strings.HasPrefix(line, "Example") || strings.HasPrefix(line, "Fuzz") {
			names = append(names, line)
		}
	}
	if !r.Passed || len(names) == 0 {
		return nil, fmt.Errorf("list the tests of %s: %s", p.folder, r.Output)
	}
	return names, nil
}
