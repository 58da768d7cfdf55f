package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestPollThatBroke: a no-op whose state could not be read to the end was not waited for, so nobody is blamed for it.
func TestPollThatBroke(t *testing.T) {
	task := factID(diag.HopNodeTaskRoundtrip, stepTask)
	for _, state := range []string{"queued", "dispatched"} {
		for word, phase := range map[diag.Failure]string{diag.HTTPEdgePage: "http", diag.TCPReset: "http",
			diag.HTTPStatus: "http", diag.TCPRefused: "tcp"} {
			r := walkWith(t, answers{task: func(f *diag.Fact) {
				f.Failure, f.Phase = word, phase
				f.HTTP.Fields["task.status"] = state
				delete(f.HTTP.Fields, "task.completed_at")
			}})
			h := hopOf(r, diag.HopNodeTaskRoundtrip)
			if h.Status != diag.StatusInconclusive || !strings.Contains(h.Because, "could not be read") {
				t.Errorf("%s, %s: %s\n%s", state, word, h.Status, describe(r))
			}
		}
	}
}
