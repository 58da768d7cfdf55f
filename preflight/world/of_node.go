package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// NodeUnmeasured returns why nothing of the node was measured, "" if something was, or if only other things were asked
// for. Such a walk would pass for any name.
func NodeUnmeasured(hops []diag.HopResult, c *hop.Case) string {
	if !c.Chain.WantsNode(c.Plan) {
		return ""
	}
	var why []string
	for i := range hops {
		h := c.Hop(hops[i].ID)
		switch {
		case !h.AboutNode() || hop.OptedOut(c.Planned(h.ID)):
		case measuredNode(h, &hops[i], c):
			return ""
		case reading.HasResult(hops[i].Status):
			why = append(why, fmt.Sprintf("%s: nothing in the answer names it", h.ID))
		case !slices.ContainsFunc(why, func(w string) bool { return strings.HasSuffix(w, hops[i].Because) }):
			why = append(why, fmt.Sprintf("%s: %s", h.ID, hops[i].Because))
		}
	}
	return fmt.Sprintf("nothing of %s was measured: %s", c.Subject.NodeID, strings.Join(why[:min(len(why), 2)], "; "))
}

// measuredNode reports whether the hop's result shows something of the node: a step on it passed, or the platform's
// answer names it. A platform that gives one answer for every id shows nothing.
func measuredNode(h *hop.Hop, r *diag.HopResult, c *hop.Case) bool {
	return reading.HasResult(r.Status) && (slices.ContainsFunc(r.Steps, func(s diag.StepResult) bool {
		return s.Vantage == hop.Node && s.Fact != "" && s.Status == diag.StatusPass
	}) || (h.OfNode != nil && h.OfNode(c)))
}

// AnswerNamesNode reports whether the platform's answer for the node has the node's own name.
func AnswerNamesNode(c *hop.Case) bool {
	return strings.EqualFold(ReadModel(c, "node.id"), c.Subject.NodeID) ||
		strings.EqualFold(ReadModel(c, "node.hostname"), c.Subject.NodeID)
}
