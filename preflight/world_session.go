package preflight

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
)

// decisions are the reference platform's reasons for a terminal that a decision ended or forbids, so that nothing
// failed. Other platforms do not use these words.
var decisions = map[string]string{
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

// decided returns the key of decisions that the platform gave for this walk's session: in its refusal, over the
// stream, or in its row; "" without one.
func decided(c *Case) string {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	words := [...]string{code(c.Fact(diag.HopTerminalTokenMint, stepMint)), code(f),
		sessionField(c, "session.close_reason"), "", ""}
	if f != nil && f.WS != nil {
		words[3], words[4] = f.WS.FrameCode, f.WS.CloseReason
	}
	for _, w := range words {
		if w != "" && decisions[w] != "" {
			return w
		}
	}
	return ""
}

// byDecision is the finding of a terminal hop that did not pass because of a decision during the walk: no hop is at
// fault, and nothing proves that the terminal works.
func byDecision(f *diag.Fact, word string) []diag.Finding {
	out := undecided(f, "%s",
		fmt.Sprintf("%s during this walk (the platform says %s), so no terminal is given: read the allocation and "+
			"the node again", decisions[word], word))
	out.Failure, out.Lack = diag.OK, diag.LackAnswer // the failure is the end of the session, which was intended
	return []diag.Finding{out}
}
