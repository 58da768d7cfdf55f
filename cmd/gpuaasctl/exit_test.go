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
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"a pass", judged(report(diag.OutcomePass, diag.EndedCompleted), true), 0},
		{"a warning", judged(report(diag.OutcomeWarn, diag.EndedCompleted), false), 0},
		{"a warning that counts", judged(report(diag.OutcomeWarn, diag.EndedCompleted), true), 4},
		{"a failed hop", judged(report(diag.OutcomeFail, diag.EndedCompleted), false), 3},
		{"a failed hop at the deadline", judged(report(diag.OutcomeFail, diag.EndedDeadline), false), 3},
		{"inconclusive", judged(report(diag.OutcomeInconclusive, diag.EndedDeadline), false), 5},
		{"no outcome at all", judged(report("", diag.EndedCompleted), false), 1},
		{"a crash", judged(report(diag.OutcomePass, diag.EndedError), false), 1},
		{"Ctrl-C", judged(report(diag.OutcomeFail, diag.EndedInterrupted), false), 130},
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
