// Package status decides the operational status of a node: whether it gets new work. This is not health: a node reports
// evidence, a policy derives a health from it (package gpu/policy), and the control side decides the status here.
//
// It is pure: a node's state and an event give the next state and the change to record. It reads no clock and notifies
// nobody; the caller stores the state, records the change, and updates the scheduler.
package status

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

// Status is the operational status of a node.
type Status string

// Statuses. Unhealthy is also a health: a node with this status had a report of that health, and no fully healthy one
// since.
const (
	Active     Status = "ACTIVE"
	Cordoned   Status = "CORDONED" // no new work
	Draining   Status = "DRAINING" // its work ends
	Unhealthy  Status = "UNHEALTHY"
	Terminated Status = "TERMINATED"
)

// Node is a node's status as it is stored. Its zero value is an active node.
type Node struct {
	Status Status `json:"status"`
	// Before is the status to which an unhealthy node returns: Active, Cordoned or Draining. "" for all other nodes.
	Before Status `json:"before,omitempty"`
	// Health is the last enforced health; "" before the first report.
	Health policy.Health `json:"health,omitempty"`
}

// Now returns the status; a node without stored state is active.
func (n Node) Now() Status {
	if n.Status == "" {
		return Active
	}
	return n.Status
}

// Change is the result of an event. Every event is recorded, even if it changes nothing.
type Change struct {
	From    Status        `json:"from"`
	To      Status        `json:"to"`
	Asked   string        `json:"asked"` // report, heartbeat_missing, cordon, uncordon, drain, terminate
	Health  policy.Health `json:"health,omitempty"`
	Shadow  bool          `json:"shadow,omitempty"` // nothing acted on the report
	Refused bool          `json:"refused,omitempty"`
	Why     string        `json:"why"`
}

// What happens to a node.
const (
	AskReport    = "report"
	AskMissing   = "heartbeat_missing"
	AskCordon    = "cordon"
	AskUncordon  = "uncordon"
	AskDrain     = "drain"
	AskTerminate = "terminate"
)

// Report applies a judgement about the node. A judgement in shadow mode changes nothing.
func (n Node) Report(h policy.Health, mode policy.Mode) (Node, Change) {
	c := Change{From: n.Now(), To: n.Now(), Asked: AskReport, Health: h}
	switch {
	case n.Now() == Terminated:
		c.Refused, c.Why = true, "the node is terminated"
		return n, c
	case mode != policy.Enforce:
		c.Shadow, c.Why = true, fmt.Sprintf("%s by a policy in shadow mode, on which nothing acts", h)
		return n, c
	}
	next := n
	next.Status, next.Health = n.Now(), h
	switch {
	case h == policy.Unhealthy && n.Now() != Unhealthy:
		next.Status, next.Before = Unhealthy, n.Now()
		c.Why = "the report is UNHEALTHY"
	case h == policy.Healthy && n.Now() == Unhealthy:
		next.Status, next.Before = back(n.Before), ""
		c.Why = "the report is fully HEALTHY: the node is " + string(next.Status) + " again"
	case n.Now() == Unhealthy:
		c.Why = fmt.Sprintf("%s: only a fully HEALTHY report recovers the node", h)
	default:
		c.Why = fmt.Sprintf("%s changes nothing for a node that is %s", h, n.Now())
	}
	c.To = next.Status
	return next, c
}

// back returns the status to which an unhealthy node returns. A node whose earlier status was not stored gets no new
// work until an operator changes it.
func back(before Status) Status {
	switch before {
	case Active, Cordoned, Draining:
		return before
	}
	return Cordoned
}

// HeartbeatMissing handles a missing heartbeat. It is not evidence about the GPUs, and changes nothing.
func (n Node) HeartbeatMissing() (Node, Change) {
	return n, Change{From: n.Now(), To: n.Now(), Asked: AskMissing, Refused: n.Now() == Terminated,
		Why: "a missing heartbeat is not evidence about GPUs"}
}

// Cordon, Uncordon, Drain and Terminate are an operator's requests. The first three do not end the status of an
// unhealthy node: they decide the status to which it returns.

// Cordon keeps new work away.
func (n Node) Cordon() (Node, Change) { return n.ask(AskCordon, Cordoned) }

// Uncordon lets new work come.
func (n Node) Uncordon() (Node, Change) { return n.ask(AskUncordon, Active) }

// Drain lets its work end.
func (n Node) Drain() (Node, Change) { return n.ask(AskDrain, Draining) }

func (n Node) ask(asked string, to Status) (Node, Change) {
	c := Change{From: n.Now(), To: n.Now(), Asked: asked}
	next := n
	next.Status = n.Now()
	switch n.Now() {
	case Terminated:
		c.Refused, c.Why = true, "the node is terminated"
		return n, c
	case Unhealthy:
		next.Before = to
		c.Why = fmt.Sprintf("the node stays UNHEALTHY; it will be %s after a fully HEALTHY report", to)
	case to:
		c.Why = "it is " + string(to)
	default:
		next.Status, c.To = to, to
		c.Why = "an operator asked for it"
	}
	return next, c
}

// Terminate is for ever.
func (n Node) Terminate() (Node, Change) {
	c := Change{From: n.Now(), To: Terminated, Asked: AskTerminate, Why: "an operator asked for it"}
	if n.Now() == Terminated {
		c.Refused, c.Why = true, "the node is terminated"
	}
	return Node{Status: Terminated, Health: n.Health}, c
}
