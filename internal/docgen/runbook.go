package main

import (
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// runbookPage is docs/runbook.md, to which reports refer: every signal and every reason has an anchor, from the
// catalogue.
func runbookPage() string {
	return written("runbook", map[string]any{
		"Signals": diag.Signals(), "Reasons": diag.Reasons(), "Scenarios": diag.Scenarios(),
	})
}

// onlyIf describes the reports to which a step applies, "" for all.
func onlyIf(step diag.Step) string {
	where := ""
	if step.Network == diag.NetworkAgent {
		where = "where the agent has a network namespace of its own: "
	}
	switch {
	case step.Side == diag.SidePlatform:
		return "if the control plane answers with errors, or not at all: "
	case step.Side == diag.SideOperator:
		return "if there is no sign of a control plane fault: "
	case step.Side == diag.SideEdge:
		return "if an edge in front of the listener is at fault: "
	case step.Side == diag.SideNodeWay:
		return "if it is cut between gateway and node: "
	case step.Side == diag.SideAgent:
		return "if the fault is the agent's own: "
	case step.Side == diag.SideNode:
		return "if the node's machine is at fault: "
	case step.Side == diag.SideNetwork:
		return "if an answer is lost on the way back: "
	case step.On != "":
		return "for " + string(step.On) + ": " + where
	case step.When == diag.RelyTasks:
		return "if the agent takes no tasks: "
	case len(step.Only) > 0:
		return "for " + strings.Join(step.Only, ", ") + ": "
	case len(step.Except) > 0:
		return "except for " + strings.Join(step.Except, ", ") + ": "
	case step.Guess:
		return "if no error was recorded: "
	}
	return where
}

func repair(d time.Duration) string {
	if d == 0 {
		return "by itself or on the next business day"
	}
	return "within " + diag.Span(d)
}
