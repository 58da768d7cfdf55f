package world

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Decisions are the reference platform's reasons for a terminal that a decision ended or forbids, so that nothing
// failed. Other platforms do not use these words.
var Decisions = map[string]string{
	"allocation_released":    "the allocation was released",
	"allocation_not_active":  "the allocation was no longer active",
	"node_fenced":            "the node or its host was fenced",
	"node_revoked":           "the node's identity was revoked",
	"node_retired":           "the node was retired",
	"node_cloned":            "the node was quarantined (two hosts use its identity)",
	"node_identity_replaced": "the node was given a new identity",
	"session_time_limit":     "the session reached the platform's time limit",
	"session_idle_limit":     "the session reached the platform's idle limit",
}

// Decided returns the key of decisions that the platform gave for this walk's session: in its refusal, over the
// stream, or in its row; "" without one.
func Decided(c *hop.Case) string {
	f := c.Fact(diag.HopBrowserTerminalWS, hop.StepSession)
	words := [...]string{reading.Code(c.Fact(diag.HopTerminalTokenMint, hop.StepMint)), reading.Code(f),
		SessionField(c, "session.close_reason"), "", ""}
	if f != nil && f.WS != nil {
		words[3], words[4] = f.WS.FrameCode, f.WS.CloseReason
	}
	for _, w := range words {
		if w != "" && Decisions[w] != "" {
			return w
		}
	}
	return ""
}

// ByDecision is the finding of a terminal hop that did not pass because of a decision during the walk: no hop is at
// fault, and nothing proves that the terminal works.
func ByDecision(f *diag.Fact, word string) []diag.Finding {
	out := reading.Undecided(f, "%s",
		fmt.Sprintf("%s during this walk (the platform says %s), so no terminal is given: read the allocation and "+
			"the node again", Decisions[word], word))
	out.Failure, out.Lack = diag.OK, diag.LackAnswer // the failure is the end of the session, which was intended
	return []diag.Finding{out}
}
