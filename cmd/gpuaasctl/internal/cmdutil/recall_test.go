package cmdutil

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
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
		if a.NotKept("run-b", c.kept); !strings.Contains(errs.String(), c.want) || (c.want == "" && errs.Len() > 0) {
			t.Errorf("%+v: %s", c.kept, &errs)
		}
	}
}
