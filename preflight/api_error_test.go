package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestRepeatedErrorsAreMeasured: an API that answers requests of a walk with 5xx, again and again, has failed; one that
// did so once may have been unlucky, and nothing is known behind it.
func TestRepeatedErrorsAreMeasured(t *testing.T) {
	const enqueue, mint, read = "node_task_roundtrip/enqueue", "terminal_token_mint/mint", "node_heartbeat/read_model"
	broken := func(f *diag.Fact) {
		refusal(500, "internal_error")(f)
		f.HTTP.ContentType = "application/json"
	}
	for name, tc := range map[string]struct {
		answers answers
		outcome diag.Outcome
		blame   diag.HopID
		says    string
	}{
		"a task and a token": {answers{enqueue: broken, mint: broken}, diag.OutcomeFail, diag.HopNodeTaskRoundtrip,
			"as 2 requests of this walk there do"},
		"a read, each time": {answers{read: broken}, diag.OutcomeFail, diag.HopNodeHeartbeat, "times"},
		"a task, once":      {answers{enqueue: broken}, diag.OutcomeInconclusive, diag.HopNodeTaskRoundtrip, ""},
		"two pages of what is in front of it": {answers{enqueue: refusal(503, ""), mint: refusal(503, "")},
			diag.OutcomeInconclusive, diag.HopNodeTaskRoundtrip, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, tc.answers)
			b := blameOf(r)
			if r.Verdict.Outcome != tc.outcome || b.Hop != tc.blame || !strings.Contains(b.Text, tc.says) {
				t.Errorf("%s, %s: %s\n%s", r.Verdict.Outcome, b.Hop, b.Text, describe(r))
			}
			if tc.outcome == diag.OutcomeFail && (b.Signal != diag.SigControlPlaneUnreachable ||
				!strings.Contains(r.Verdict.Owner, "control plane")) {
				t.Errorf("%s, owner %s", b.Signal, r.Verdict.Owner)
			}
			replaysToItself(t, r)
		})
	}
}
