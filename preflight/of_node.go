package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// nodeUnmeasured returns why nothing of the node was measured, "" if something was, or if only other things were asked
// for. Such a walk would pass for any name.
func nodeUnmeasured(hops []diag.HopResult, c *Case) string {
	if !c.chain.WantsNode(c.Plan) {
		return ""
	}
	var why []string
	for i := range hops {
		h := c.hop(hops[i].ID)
		switch {
		case !h.aboutNode() || optedOut(c.planned(h.ID)):
		case measuredNode(h, &hops[i], c):
			return ""
		case hasResult(hops[i].Status):
			why = append(why, fmt.Sprintf("%s: nothing in the answer names it", h.ID))
		case !slices.ContainsFunc(why, func(w string) bool { return strings.HasSuffix(w, hops[i].Because) }):
			why = append(why, fmt.Sprintf("%s: %s", h.ID, hops[i].Because))
		}
	}
	return fmt.Sprintf("nothing of %s was measured: %s", c.Subject.NodeID, strings.Join(why[:min(len(why), 2)], "; "))
}

// measuredNode reports whether the hop's result shows something of the node: a step on it passed, or the platform's
// answer names it. A platform that gives one answer for every id shows nothing.
func measuredNode(h *Hop, r *diag.HopResult, c *Case) bool {
	return hasResult(r.Status) && (slices.ContainsFunc(r.Steps, func(s diag.StepResult) bool {
		return s.Vantage == Node && s.Fact != "" && s.Status == diag.StatusPass
	}) || (h.OfNode != nil && h.OfNode(c)))
}

// answerNamesNode reports whether the platform's answer for the node has the node's own name.
func answerNamesNode(c *Case) bool {
	return strings.EqualFold(readModel(c, "node.id"), c.Subject.NodeID) ||
		strings.EqualFold(readModel(c, "node.hostname"), c.Subject.NodeID)
}
