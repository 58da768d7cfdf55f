package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

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
		{"a pass", judged(report(diag.OutcomePass, diag.EndedCompleted), failOnWarn), 0},
		{"a warning", judged(report(diag.OutcomeWarn, diag.EndedCompleted), ""), 0},
		{"a warning that counts", judged(report(diag.OutcomeWarn, diag.EndedCompleted), failOnWarn), 4},
		{"a pass that did not regress", judged(diffed(diag.OutcomePass, true, false), failOnRegression), 0},
		{"a pass that regressed", judged(diffed(diag.OutcomePass, true, true), failOnRegression), 6},
		{"a warning that regressed", judged(diffed(diag.OutcomeWarn, true, true), failOnRegression), 6},
		{"a regression that nobody asked about", judged(diffed(diag.OutcomePass, true, true), ""), 0},
		{"a gate without a baseline", judged(diffed(diag.OutcomePass, false, false), failOnRegression), 5},
		{"a gate without a diff", judged(report(diag.OutcomePass, diag.EndedCompleted), failOnRegression), 5},
		{"a failed hop that regressed", judged(diffed(diag.OutcomeFail, true, true), failOnRegression), 3},
		{"nothing decided, and a regression", judged(diffed(diag.OutcomeInconclusive, true, true), failOnRegression), 5},
		{"a failed hop", judged(report(diag.OutcomeFail, diag.EndedCompleted), ""), 3},
		{"a failed hop at the deadline", judged(report(diag.OutcomeFail, diag.EndedDeadline), ""), 3},
		{"inconclusive", judged(report(diag.OutcomeInconclusive, diag.EndedDeadline), ""), 5},
		{"no outcome at all", judged(report("", diag.EndedCompleted), ""), 1},
		{"a crash", judged(report(diag.OutcomePass, diag.EndedError), ""), 1},
		{"Ctrl-C", judged(report(diag.OutcomeFail, diag.EndedInterrupted), ""), 130},
		{"Ctrl-C without a report", fmt.Errorf("look: %w", context.Canceled), 130},
		{"usage", usagef("no"), 2},
		{"a file's line", errors.Join(&profile.FileError{Path: "p", Line: 1}), 2},
		{"a flag's value", fmt.Errorf("load: %w", &profile.InputError{Source: "flag --x", Err: errors.New("y")}), 2},
		{"no such profile", &profile.NotFoundError{}, 2},
		{"a hop's failure without a report", &failedError{errors.New("x")}, 3},
		{"a disk", fs.ErrPermission, 1},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
}
