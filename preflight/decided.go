package preflight

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
)

// decisions is what a platform says of a terminal that a decision ended or forbids: nobody failed. A platform of another
// kind says none of these words.
var decisions = map[string]string{
	"allocation_released":    "the allocation was released",
	"allocation_not_active":  "the allocation is not active any more",
	"node_fenced":            "the node or its host was fenced",
	"node_revoked":           "the node's identity was revoked",
	"node_retired":           "the node was retired",
	"node_cloned":            "the node was quarantined: two hosts speak as it",
	"node_identity_replaced": "the node was given a new identity",
	"session_time_limit":     "the session reached the platform's limit of time",
	"session_idle_limit":     "the session reached the platform's limit of idle time",
}

// decided gives the word of decisions that the platform said of this walk's session: as it refused it, over it, or in its
// row; "" when it said none.
func decided(c *Case) string {
	f := c.Fact(diag.HopBrowserTerminalWS, stepSession)
	words := []string{code(c.Fact(diag.HopTerminalTokenMint, stepMint)), code(f), sessionField(c, "close_reason")}
	if f != nil && f.WS != nil {
		words = append(words, f.WS.FrameCode, f.WS.CloseReason)
	}
	for _, w := range words {
		if decisions[w] != "" {
			return w
		}
	}
	return ""
}

// byDecision is the finding of a terminal hop that did not pass since somebody decided so while the walk looked: no fault
// of anybody's, and no proof that the terminal works.
func byDecision(f *diag.Fact, word string) []diag.Finding {
	out := undecided(f, "%s", fmt.Sprintf("%s while this walk looked (the platform says %s), so no terminal is given: read the allocation and the node again", decisions[word], word))
	out.Failure = diag.OK // its word is of the ending, which was meant
	return []diag.Finding{out}
}
