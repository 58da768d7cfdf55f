package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

func TestExitCodes(t *testing.T) {
	report := func(o diag.Outcome, e diag.EndedBy) *diag.Report {
		return &diag.Report{Run: diag.Run{EndedBy: e}, Verdict: diag.Verdict{Outcome: o}}
	}
	diffed := func(o diag.Outcome, comparable, regression bool) *diag.Report {
		r := report(o, diag.EndedCompleted)
		r.Diff = &diag.Diff{Comparable: comparable}
		if comparable {
			r.Diff.Changes = []diag.Change{{Kind: diag.ChangeRoute, Regression: regression}}
		}
		return r
	}
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"a pass", cmdutil.Judged(report(diag.OutcomePass, diag.EndedCompleted), cmdutil.FailOnWarn), 0},
		{"a warning", cmdutil.Judged(report(diag.OutcomeWarn, diag.EndedCompleted), ""), 0},
		{"a warning that counts", cmdutil.Judged(report(diag.OutcomeWarn, diag.EndedCompleted), cmdutil.FailOnWarn), 4},
		{"a pass that did not regress", cmdutil.Judged(diffed(diag.OutcomePass, true, false), cmdutil.FailOnRegression), 0},
		{"a pass that regressed", cmdutil.Judged(diffed(diag.OutcomePass, true, true), cmdutil.FailOnRegression), 6},
		{"a warning that regressed", cmdutil.Judged(diffed(diag.OutcomeWarn, true, true), cmdutil.FailOnRegression), 6},
		{"a regression that nobody asked about", cmdutil.Judged(diffed(diag.OutcomePass, true, true), ""), 0},
		{"a gate without a baseline", cmdutil.Judged(diffed(diag.OutcomePass, false, false), cmdutil.FailOnRegression), 5},
		{"a gate without a diff", cmdutil.Judged(report(diag.OutcomePass, diag.EndedCompleted), cmdutil.FailOnRegression), 5},
		{"a failed hop that regressed", cmdutil.Judged(diffed(diag.OutcomeFail, true, true), cmdutil.FailOnRegression), 3},
		{"nothing decided, and a regression", cmdutil.Judged(diffed(diag.OutcomeInconclusive, true, true),
			cmdutil.FailOnRegression), 5},
		{"a failed hop", cmdutil.Judged(report(diag.OutcomeFail, diag.EndedCompleted), ""), 3},
		{"a failed hop at the deadline", cmdutil.Judged(report(diag.OutcomeFail, diag.EndedDeadline), ""), 3},
		{"inconclusive", cmdutil.Judged(report(diag.OutcomeInconclusive, diag.EndedDeadline), ""), 5},
		{"no outcome at all", cmdutil.Judged(report("", diag.EndedCompleted), ""), 1},
		{"a crash", cmdutil.Judged(report(diag.OutcomePass, diag.EndedError), ""), 1},
		{"Ctrl-C", cmdutil.Judged(report(diag.OutcomeFail, diag.EndedInterrupted), ""), 130},
		{"Ctrl-C without a report", fmt.Errorf("look: %w", context.Canceled), 130},
		{"usage", cmdutil.Usagef("no"), 2},
		{"a file's line", errors.Join(&profile.FileError{Path: "p", Line: 1}), 2},
		{"a flag's value", fmt.Errorf("load: %w", &profile.InputError{Source: "flag --x", Err: errors.New("y")}), 2},
		{"no such profile", &profile.NotFoundError{}, 2},
		{"a hop's failure without a report", &cmdutil.FailedError{Err: errors.New("x")}, 3},
		{"a disk", fs.ErrPermission, 1},
	} {
		if got := cmdutil.CodeOf(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
}

func TestDrillExitCodes(t *testing.T) {
	for _, c := range []struct {
		name  string
		ended diag.EndedBy
		words []drill.Word
		want  int
	}{
		{"a pass", diag.EndedCompleted, []drill.Word{drill.Pass}, 0},
		{"passes", diag.EndedCompleted, []drill.Word{drill.Pass, drill.Pass}, 0},
		{"no drill", diag.EndedCompleted, nil, 5},
		{"no drill, interrupted", diag.EndedInterrupted, nil, 130},
		{"not injected", diag.EndedCompleted, []drill.Word{drill.NotInjected}, 3},
		{"not detected", diag.EndedCompleted, []drill.Word{drill.NotDetected}, 3},
		{"the wrong hop", diag.EndedCompleted, []drill.Word{drill.WrongHop}, 3},
		{"late", diag.EndedCompleted, []drill.Word{drill.Late}, 3},
		{"collateral", diag.EndedCompleted, []drill.Word{drill.Collateral}, 3},
		{"no recovery", diag.EndedCompleted, []drill.Word{drill.NoRecovery}, 3},
		{"reverted early", diag.EndedCompleted, []drill.Word{drill.RevertedEarly}, 3},
		{"infra", diag.EndedCompleted, []drill.Word{drill.Infra}, 5},
		{"conflict", diag.EndedCompleted, []drill.Word{drill.Conflict}, 5},
		{"a guard", diag.EndedCompleted, []drill.Word{drill.AbortedGuard}, 5},
		{"residue", diag.EndedCompleted, []drill.Word{drill.Residue}, 7},
		{"residue before all others", diag.EndedCompleted, []drill.Word{drill.Pass, drill.WrongHop, drill.Residue,
			drill.Infra}, 7},
		{"residue, interrupted", diag.EndedInterrupted, []drill.Word{drill.Pass, drill.Residue}, 7},
		{"residue, broken off", diag.EndedError, []drill.Word{drill.Residue}, 7},
		{"residue beside a word of another version", diag.EndedCompleted, []drill.Word{"splendid", drill.Residue}, 7},
		{"a failure after what decided nothing", diag.EndedCompleted, []drill.Word{drill.Infra, drill.Late, drill.Pass}, 3},
		{"a failure before what decided nothing", diag.EndedCompleted, []drill.Word{drill.Late, drill.Conflict}, 3},
		{"nothing decided among passes", diag.EndedCompleted, []drill.Word{drill.Pass, drill.AbortedGuard, drill.Pass}, 5},
		{"interrupted after a pass", diag.EndedInterrupted, []drill.Word{drill.Pass}, 130},
		{"interrupted after a failure", diag.EndedInterrupted, []drill.Word{drill.WrongHop}, 130},
		{"broken off after a pass", diag.EndedError, []drill.Word{drill.Pass}, 5},
		{"broken off after a failure", diag.EndedError, []drill.Word{drill.Late}, 3},
		{"a word of another version", diag.EndedCompleted, []drill.Word{"splendid", drill.Late}, 1},
		{"no word", diag.EndedCompleted, []drill.Word{""}, 1},
	} {
		r := &drill.Report{EndedBy: c.ended}
		for _, w := range c.words {
			r.Drills = append(r.Drills, drill.Drill{Verdict: drill.Verdict{Word: w}})
		}
		if got := cmdutil.DrillCode(r); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
	notRun := &drill.Report{EndedBy: diag.EndedCompleted,
		Drills: []drill.Drill{{Verdict: drill.Verdict{Word: drill.Pass}}}, NotRun: []string{"disk-full"}}
	if got := cmdutil.DrillCode(notRun); got != 5 {
		t.Errorf("a drill that was not run: exit code %d", got)
	}
	for _, w := range drill.Words() { // exit code and output agree
		want := map[int]diag.Status{0: diag.StatusPass, 3: diag.StatusFail, 7: diag.StatusFail,
			5: diag.StatusInconclusive}[cmdutil.WordCode(w)]
		if render.Status(w) != want {
			t.Errorf("%s is shown as %s and ends with %d", w, render.Status(w), cmdutil.WordCode(w))
		}
	}
}

// closedPipe is a stdout whose disk is full.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// head is a stdout whose reader has read enough.
type head struct{}

func (head) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

// TestReaderGone: a reader that closes the pipe early changes no exit code, and causes no message.
func TestReaderGone(t *testing.T) {
	for report, want := range map[string]int{"pass": cmdutil.ExitPass, "residue": cmdutil.ExitResidue} {
		var errs bytes.Buffer
		a := &cmdutil.App{Stdin: strings.NewReader(""), Stdout: head{}, Stderr: &errs, Env: func(string) string { return "" }}
		code := execute(a, t.Context(), []string{"chaos", "report", "../../chaos/render/testdata/" + report + ".json"})
		if code != want || errs.Len() > 0 {
			t.Errorf("%s: exit code %d, want %d: %s", report, code, want, &errs)
		}
	}
}

// TestResidueWinsOverWriting: residue on a machine decides the exit code, even if the document could not be written.
func TestResidueWinsOverWriting(t *testing.T) {
	for name, c := range map[string]struct {
		report string
		code   int
	}{"residue": {"residue", cmdutil.ExitResidue}, "a pass": {"pass", cmdutil.ExitInternal}} {
		var errs bytes.Buffer
		a := &cmdutil.App{Stdin: strings.NewReader(""), Stdout: closedPipe{}, Stderr: &errs,
			Env: func(string) string { return "" }}
		code := execute(a, t.Context(), []string{"chaos", "report", "../../chaos/render/testdata/" + c.report + ".json"})
		if code != c.code || !strings.Contains(errs.String(), io.ErrClosedPipe.Error()) {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.code, &errs)
		}
	}
}
