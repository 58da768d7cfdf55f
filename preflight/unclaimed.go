package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
)

// locateUnclaimed adds to the finding of an unclaimed task why the agent cannot have got it, as far as that is known:
// what answers the node's task waits does not ask the queue.
func locateUnclaimed(c *Case, out *diag.Finding) {
	out.Reason = unclaimed(c)
	wait, judged, e := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait), judgeTaskWait(c), cutWait(c)
	side := diag.SideEdge
	switch {
	case silentNode(c):
		out.Culprit = culpritSilentNode
		return
	case admitted(wait) && wait.HTTP != nil && wait.HTTP.Cached != "":
		out.Text += "; the node's task wait was answered from a cache (" + wait.HTTP.Cached + "), so the queue was not asked"
	case e != nil:
		out.Text += fmt.Sprintf("; the node's record says that its task waits are cut off, as of %s: %s; the walk's own, "+
			"which is answered at once, is accepted", e.At.UTC().Format(time.RFC3339), entryWords(e))
	case status(wait) != 0 && judged != nil && judged.Status == diag.StatusInconclusive:
		out.Text += "; an agent gets its tasks by task waits, and " + judged.Because
		if platformCode(wait) || namesObject(wait) {
			side = diag.SidePlatform
		}
	default:
		return
	}
	out.Side, out.Reason = side, diag.ReasonControlPlaneUnreachable
}

// unclaimed returns the reason for an unclaimed task: version drift if the agent's version is known to differ and the
// node is in contact, else an unreachable agent. An agent that refuses a task reports it; one that does not poll is not
// evidence about its version.
func unclaimed(c *Case) diag.ReasonCode {
	have, want := readModel(c, "node.agent_version"), readModel(c, "node.agent_desired_version")
	if have != "" && want != "" && !classify.SameVersion(have, want) && !silentNode(c) {
		return diag.ReasonAgentVersionDrift
	}
	return diag.ReasonNodeAgentUnreachable
}
