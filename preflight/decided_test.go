package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestReleasedWhileWalking: a walk during which its allocation is released, or its node fenced, blames no hop for the
// terminal, whichever hop met the decision, and does not pass.
func TestReleasedWhileWalking(t *testing.T) {
	row := func(f *diag.Fact) {
		f.HTTP.Fields["session.close_reason"] = "allocation_released"
	}
	refused := func(word string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.WS, f.PTY = diag.WSUpgradeRejected, "ws", &diag.WSFacts{}, nil
			f.HTTP = &diag.HTTPFacts{Status: 409, ErrorCode: word}
		}
	}
	for name, a := range map[string]answers{
		"before the mint": {"terminal_token_mint/mint": func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http",
				&diag.HTTPFacts{Status: 409, ErrorCode: "allocation_not_active"}
		}},
		"before the attach": {"browser_terminal_ws/session": refused("allocation_released")},
		"revoked":           {"browser_terminal_ws/session": refused("node_revoked")},
		"before the node comes": {
			"browser_terminal_ws/session": func(f *diag.Fact) {
				f.Failure, f.Phase, f.PTY = diag.WSClosed, "ws", nil
				f.WS = &diag.WSFacts{Upgraded: true, FirstFrame: "error", FrameCode: "allocation_released", CloseCode: 4000,
					CloseReason: "allocation_released"}
			},
			"terminal_open_task/session": func(f *diag.Fact) {
				row(f)
				f.HTTP.Fields["session.task_status"] = "expired"
				delete(f.HTTP.Fields, "session.task_claimed_at")
				delete(f.HTTP.Fields, "session.node_stream_connected_at")
				delete(f.HTTP.Fields, "session.pty_ready_at")
			},
		},
		"while the shell computes": {
			"browser_terminal_ws/session": func(f *diag.Fact) {
				f.Failure, f.Phase, f.PTY = diag.WSClosed, "ws", nil
				f.WS = &diag.WSFacts{Upgraded: true, FirstFrame: "ready", CloseCode: 4000, CloseReason: "allocation_released"}
			},
			"terminal_open_task/session": row,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, a)
			if r.Verdict.Outcome != diag.OutcomeInconclusive {
				t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
			}
			noted := false
			for _, h := range r.Hops {
				if h.Status == diag.StatusFail {
					t.Errorf("%s fails: %s", h.ID, h.Text)
				}
				noted = noted || strings.Contains(h.Because, "during this walk")
			}
			if !noted {
				t.Errorf("nobody says why\n%s", describe(r))
			}
		})
	}
}

// TestDecisionAfterTheProof: a shell that computed before the decision is enough for a pass.
func TestDecisionAfterTheProof(t *testing.T) {
	r := walkWith(t, answers{"terminal_open_task/session": func(f *diag.Fact) {
		f.HTTP.Fields["session.close_reason"] = "allocation_released"
	}})
	if r.Verdict.Outcome != diag.OutcomePass {
		t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
	}
}
