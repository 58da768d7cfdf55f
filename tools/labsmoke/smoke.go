package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	tool  = "bin/gpuaasctl"
	nodes = "6" // as the suite's lab
	lanes = "5" // tests at once, as make test-lab

	downBudget = 2 * time.Minute
	testBudget = 20 * time.Minute
)

// part runs one part and prints how long it took.
func part(out io.Writer, name string, do func() error) error {
	fmt.Fprintf(out, "=== %s\n", name)
	began := time.Now()
	err := do()
	how := "ok"
	if err != nil {
		how = err.Error()
	}
	fmt.Fprintf(out, "=== %s: %s, %s\n", name, how, time.Since(began).Round(100*time.Millisecond))
	return err
}

// smoke tries the rows on a lab of its own, and returns the exit status.
func smoke(ctx context.Context, out io.Writer, rows []row, seed uint64) int {
	dir, err := os.MkdirTemp("", "labsmoke")
	if err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "e2e.test")
	err = part(out, "build", func() error {
		for _, argv := range [][]string{{"go", "run", "./tools/testneeds", "lab"},
			{"make", "--no-print-directory", "-s", "build", "drill-agent"}, {"go", "test", "-c", "-o", program, "./lab/e2e"}} {
			if err := command(ctx, out, ".", nil, argv...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 1
	}
	if command(ctx, io.Discard, ".", nil, tool, "lab", "status") == nil {
		fmt.Fprintf(out, "a lab is up: take it down with `%s lab down`\n", tool)
		return 2
	}
	before, err := listHost(ctx)
	if err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	// What was begun is removed whatever happens, also after Ctrl-C.
	err = errors.Join(onLab(ctx, out, program, rows, seed, before), part(out, "down", func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downBudget)
		defer cancel()
		if err := command(ctx, out, ".", nil, tool, "lab", "down"); err != nil {
			return err
		}
		return nothingLeft(ctx, before)
	}))
	if err != nil {
		fmt.Fprintln(out, "FAIL")
		return 1
	}
	fmt.Fprintln(out, "PASS")
	return 0
}

// onLab raises the lab, walks it healthy, and tries the rows.
func onLab(ctx context.Context, out io.Writer, program string, rows []row, seed uint64, before map[string]bool) error {
	err := part(out, "up", func() error { return command(ctx, out, ".", nil, tool, "lab", "up", "--nodes", nodes) })
	if err != nil {
		return err
	}
	during, err := listHost(ctx)
	if err != nil {
		return err
	}
	if len(added(before, during)) < 10 {
		return errors.New("a lab that is up does not show on this host: its end would prove nothing")
	}
	err = part(out, "green walk", func() error {
		const name = "TestHealthyAgainAndAgain"
		return tests(ctx, out, program, []string{"GPUAASCTL_WALKS=1"}, []string{name}, "^"+name+"$")
	})
	if err != nil {
		return err
	}
	return part(out, fmt.Sprintf("%d faults and drills", len(rows)), func() error {
		want, expression, env := expression(rows)
		env = append(env, fmt.Sprintf("GPUAASCTL_DRILL_SEED=%d", seed))
		return tests(ctx, out, program, env, want, expression)
	})
}

// expression returns the names of the rows' tests, an expression of go test that matches them, and the variables that
// say which drills run: those that concern several nodes are one test, and have no names of their own.
func expression(rows []row) (want []string, run string, env []string) {
	var suites, subtests, drills []string
	onBare := 0
	for _, r := range rows {
		if r.kind == "fault" {
			subtests = append(subtests, r.name)
			want = append(want, "TestFaults/"+r.name)
			continue
		}
		drills = append(drills, r.name)
		if r.bare {
			onBare++
			subtests = append(subtests, r.name)
		}
	}
	if len(subtests) > 0 {
		suites = append(suites, "TestFaults")
	}
	if onBare > 0 {
		suites = append(suites, "TestBareDrills")
	}
	if onBare < len(drills) {
		suites, subtests = append(suites, "TestDrills"), append(subtests, "platform", "nodes")
	}
	if len(drills) > 0 {
		for _, name := range drills {
			want = append(want, "drill:"+name)
		}
		env = append(env, "GPUAASCTL_DRILLS="+strings.Join(drills, ","))
	}
	return want, "^(" + strings.Join(suites, "|") + ")$/^(" + strings.Join(subtests, "|") + ")$", env
}

var (
	passed = regexp.MustCompile(`(?m)^\s*--- PASS: (\S+) \(`)
	drill  = regexp.MustCompile(`(?m)^\s*\S+_test\.go:\d+: (\S+) on \S+: pass, detected `)
)

// tests runs tests of the lab suite. It fails if one fails, and if one of want did not run: a name that no test has
// matches nothing, and nothing passes.
func tests(ctx context.Context, out io.Writer, program string, env, want []string, run string) error {
	ctx, cancel := context.WithTimeout(ctx, testBudget)
	defer cancel()
	bin, err := filepath.Abs("bin")
	if err != nil {
		return err
	}
	var log strings.Builder
	env = append(env, "GPUAASCTL_LAB_TESTS=1", "GPUAASCTL_BIN="+bin)
	err = command(ctx, io.MultiWriter(out, &log), "lab/e2e", env, program, "-test.v", "-test.count=1",
		"-test.parallel="+lanes, "-test.timeout="+testBudget.String(), "-test.run="+run)
	if err != nil {
		return err
	}
	if missing := notPassed(log.String(), want); len(missing) > 0 {
		return fmt.Errorf("not run: %s", strings.Join(missing, ", "))
	}
	return nil
}

// notPassed returns the tests and drills that the output does not name as passed.
func notPassed(log string, want []string) (missing []string) {
	seen := map[string]bool{}
	for _, m := range passed.FindAllStringSubmatch(log, -1) {
		seen[m[1]] = true
	}
	for _, m := range drill.FindAllStringSubmatch(log, -1) {
		seen["drill:"+m[1]] = true
	}
	return slices.DeleteFunc(slices.Clone(want), func(name string) bool { return seen[name] })
}

// command runs a program in a process group of its own, so that a Ctrl-C reaches it once and from here, and ends what
// it started with it.
func command(ctx context.Context, out io.Writer, dir string, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if dir != "." {
		cmd.Dir = dir
	}
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what did not end when asked
		return fmt.Errorf("%s: %w", argv[0], context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}
