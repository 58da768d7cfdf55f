package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	chaosschema "github.com/gpuaas/gpuaasctl/chaos/schema"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag/schema"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/policy/judge"
	gpuschema "github.com/gpuaas/gpuaasctl/gpu/policy/schema"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func TestMain(m *testing.M) {
	if strings.HasSuffix(os.Args[0], ".test") { // not if a script runs it as the program
		for _, name := range []string{"GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "COLUMNS", "CLICOLOR_FORCE", "FORCE_COLOR"} {
			_ = os.Unsetenv(name) // if CI sets it, it would be in every output
		}
	}
	runPushed()
	testscript.Main(m, map[string]func(){"gpuaasctl": main, "stubborn": stubborn, policy.Program: policyProgram,
		"gpuaas-agent": agentProgram, "gpuaas-gpu-probe": gpuProbe})
}

// policyProgram is gpuaas-gpu-policy of this build.
func policyProgram() {
	if err := judge.Serve(os.Stdin, os.Stdout, (&cmdutil.App{Built: version}).ToolVersion()); err != nil {
		os.Exit(1)
	}
}

// TestScripts runs the real program over every script, and checks its output and exit codes.
func TestScripts(t *testing.T) {
	tier.NeedsHost(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		UpdateScripts:       goldentest.Writing(),
		Setup:               func(e *testscript.Env) error { return setup(t, e) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "absent": absent, "valid": valid,
		},
	})
}

// setup gives a script a new home, an address that refuses ($DEAD), one that accepts and stays silent ($SILENT), and
// the escape character ($ESC).
func setup(t *testing.T, e *testscript.Env) error {
	e.Setenv("ESC", "\x1b")
	e.Setenv("HOME", e.WorkDir)
	e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
	e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
	if err := recordings(e); err != nil {
		return err
	}
	if err := records(e); err != nil {
		return err
	}
	if err := drillFiles(e); err != nil {
		return err
	}
	e.Setenv("DEAD", porttest.TCP(t))
	silent, err := silentListener()
	if err != nil {
		return err
	}
	e.Setenv("SILENT", silent.Addr().String())
	e.Defer(func() { _ = silent.Close() })
	return nil
}

// recordings gives a script the reports of real machines ($REPORTS), and two variants of the healthy one: moved.json,
// where a name has another answer, and other-node.json.
func recordings(e *testscript.Env) error {
	folder, err := filepath.Abs(filepath.Join("..", "..", "golden", "reports"))
	if err != nil {
		return err
	}
	e.Setenv("REPORTS", folder)
	healthy, err := os.ReadFile(filepath.Join(folder, "healthy.json"))
	if err != nil {
		return err
	}
	for name, change := range map[string][2]string{
		// the answer for a name; pinned addresses are within longer strings
		"moved.json":      {`"10.231.77.11"` + "\n", `"10.231.77.12"` + "\n"},
		"other-node.json": {`compute-node-01`, `compute-node-02`},
	} {
		made := strings.ReplaceAll(string(healthy), change[0], change[1])
		if err := os.WriteFile(filepath.Join(e.WorkDir, name), []byte(made), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// silentListener accepts in the kernel only: no process reads or writes.
func silentListener() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// exits CODE PROGRAM ARGS... runs a program and requires exactly that exit code; the script can check stdout and
// stderr.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// absent TEXT FILE... fails if any of the files (or stdout, stderr) contains TEXT.
func absent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: absent TEXT FILE...")
	}
	for _, f := range args[1:] {
		if strings.Contains(ts.ReadFile(f), args[0]) {
			ts.Fatalf("%s holds %q", f, args[0])
		}
	}
}

// valid FILE... fails unless every file is a valid report by the published schema of its kind.
func valid(ts *testscript.TestScript, neg bool, args []string) {
	for _, f := range args {
		published := schema.PreflightReport()
		if strings.Contains(ts.ReadFile(f), `"`+drill.ReportKind+`"`) {
			published = chaosschema.Report()
		}
		if strings.Contains(ts.ReadFile(f), `"GPUJudgement"`) {
			published = gpuschema.Judgement()
		}
		validBy(ts, neg, published, f)
	}
}

func validBy(ts *testscript.TestScript, neg bool, published, file string) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(published))
	ts.Check(err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	ts.Check(c.AddResource("report", doc))
	s, err := c.Compile("report")
	ts.Check(err)
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(ts.ReadFile(file)))
	ts.Check(err)
	if err := s.Validate(v); (err == nil) == neg {
		ts.Fatalf("%s: valid is %t: %v", file, err == nil, err)
	}
}
