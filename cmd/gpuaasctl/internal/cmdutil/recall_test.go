package cmdutil

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/ops/history"
)

// TestNotKept: the note why a walk is not stored, or is not a baseline, has the command that helps.
func TestNotKept(t *testing.T) {
	for _, c := range []struct {
		kept ops.Kept
		want string
	}{
		{ops.Kept{}, ""},
		{ops.Kept{Err: errors.New("disk full")}, "not kept: disk full"},
		{ops.Kept{Unread: true}, "gpuaasctl history accept run-b"},
		{ops.Kept{Better: &diag.Report{Run: diag.Run{ID: "run-a"}}}, "gpuaasctl history diff run-a run-b; to accept it: " +
			"gpuaasctl history accept run-b"},
	} {
		var errs bytes.Buffer
		a := &App{Stderr: &errs, Env: func(string) string { return "" }}
		if a.NoteNotSaved("run-b", c.kept); !strings.Contains(errs.String(), c.want) || (c.want == "" && errs.Len() > 0) {
			t.Errorf("%+v: %s", c.kept, &errs)
		}
	}
}

// TestWhatAHistoryLacksIsUsage: a damaged report, the id of several, and one that cannot be a baseline are no internal
// errors.
func TestWhatAHistoryLacksIsUsage(t *testing.T) {
	a := &App{Stderr: &bytes.Buffer{}, Env: environ("XDG_STATE_HOME=" + t.TempDir())}
	path, err := a.HistoryPath()
	if err != nil {
		t.Fatal(err)
	}
	s, err := history.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"run-1", "run-2"} {
		r := &diag.Report{Head: diag.NewHead(diag.KindPreflight), Run: diag.Run{ID: id, EndedBy: diag.EndedCompleted},
			Verdict: diag.Verdict{Outcome: diag.OutcomeFail}}
		if err := s.Save(t.Context(), r, false, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "UPDATE reports SET report = x'00' WHERE run_id = 'run-2'")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	get := func(id string) func(context.Context, *history.Store) error {
		return func(ctx context.Context, s *history.Store) error { _, err := s.Get(ctx, id); return err }
	}
	for what, do := range map[string]func(context.Context, *history.Store) error{
		"the kept report run-2 is damaged": get("run-2"), "may be several: run-": get("run-"),
		"cannot be a baseline": func(ctx context.Context, s *history.Store) error {
			_, err := s.Accept(ctx, "run-1", true)
			return err
		},
	} {
		err := a.WithHistory(t.Context(), do)
		if CodeOf(err) != ExitUsage || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: exit status %d: %v", what, CodeOf(err), err)
		}
	}
	if err := a.WithHistory(t.Context(), get("run-1")); err != nil {
		t.Error(err)
	}
}
