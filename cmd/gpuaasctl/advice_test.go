package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestEveryRecoveryHasACommandOfThisTool: for every recording, the steps have at least one command of this tool. Each
// command parses, is about the walk's node with its profile, needs nothing that the walk found broken, and is not
// forbidden by the reason.
func TestEveryRecoveryHasACommandOfThisTool(t *testing.T) {
	files, err := filepath.Glob("../../golden/*/*.json")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		r := replayed(t, file)
		v := &r.Verdict
		if len(v.Recovery) == 0 {
			if v.Outcome == diag.OutcomeFail || v.Outcome == diag.OutcomeInconclusive {
				t.Errorf("%s: %s, and no step", file, v.Outcome)
			}
			continue
		}
		ours := 0
		for _, line := range pastable(append(slices.Clone(v.Recovery), "`"+v.RepairProof+"`")) {
			argv := shellSplit(t, line)
			if argv[0] != "gpuaasctl" {
				continue
			}
			path, err := parsed(argv[1:])
			if err != nil {
				t.Errorf("%s: %s: %v", file, line, err)
			}
			if why := unfit(r, path); why != "" {
				t.Errorf("%s: %s: %s", file, line, why)
			}
			if !strings.HasPrefix(path, "profile") &&
				(!slices.Contains(argv, r.Subject.NodeID) || !strings.Contains(line, "--profile "+r.Plan.Profile)) {
				t.Errorf("%s: %s: is not about %s of %s", file, line, r.Subject.NodeID, r.Plan.Profile)
			}
			if line != v.RepairProof {
				ours++
			}
		}
		if ours == 0 {
			t.Errorf("%s: no command of this tool in\n%s", file, strings.Join(v.Recovery, "\n"))
		}
	}
}

// unfit returns why a command cannot be run after a walk, or "".
func unfit(r *diag.Report, path string) string {
	status := map[diag.HopID]diag.Status{}
	for _, h := range r.Hops {
		status[h.ID] = h.Status
	}
	login := slices.Contains([]string{"ssh exec", "diag show", "diag trust", "node endpoints apply", "node endpoints plan",
		"node reenroll"}, path)
	api := slices.Contains([]string{"node reenroll", "node status"}, path)
	reason, _ := diag.LookupReason(r.Verdict.Reason)
	fine := []diag.Status{diag.StatusPass, diag.StatusWarn, diag.StatusSkipped}
	switch {
	case login && !slices.Contains(fine, status[diag.HopNodeOpsAccess]) && r.Verdict.Blame != nil &&
		!strings.HasPrefix(string(r.Verdict.Blame.Signal), "operator_ssh_"):
		return "needs the login, which does not work"
	case api && !slices.Contains(fine, status[diag.HopControlPlaneAccess]):
		return "needs the API, which does not answer"
	case path == "node reenroll" && reason.NeverReenroll:
		return "is forbidden by the reason " + string(reason.Code)
	}
	return ""
}

// pastable returns the texts between backticks.
func pastable(steps []string) (lines []string) {
	for _, step := range steps {
		for i, part := range strings.Split(step, "`") {
			if i%2 == 1 {
				lines = append(lines, part)
			}
		}
	}
	return lines
}

// shellSplit splits a line as a shell does.
func shellSplit(t *testing.T, line string) []string {
	t.Helper()
	tier.NeedsHost(t)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\000' `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// parsed returns the command that args name, without the tool's name; an error if its flags or arguments do not parse.
func parsed(args []string) (string, error) {
	root, _ := newRoot(&cmdutil.App{Env: func(string) string { return "" }}, nil)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return "", err
	}
	path := strings.TrimPrefix(cmd.CommandPath(), "gpuaasctl ")
	if err := cmd.ParseFlags(rest); err != nil {
		return path, err
	}
	return path, cmd.ValidateArgs(cmd.Flags().Args())
}

// replayed returns a recording judged by today's rules.
func replayed(t *testing.T, file string) *diag.Report {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r diag.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	again, err := verdict.Replay(hops.BuiltIn(), &r)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return again
}
