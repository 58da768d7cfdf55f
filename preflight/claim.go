package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// A claimID names a conclusion that a finding's text draws from more than its own fact. The text of a claim is only in
// claims, beside the facts that forbid it, so that no finding contradicts a passing fact of the same walk.
type claimID int

const (
	claimPlatformDown claimID = iota
	claimOperatorWay
	claimPlatformLives
	claimNodeWay
	claimNotThisNode
	claimOnlyLookup
	claimOnlyAgentSees
	claimAgentView
	claimAgentMounts
	claimMachine
	claimAgentAlive
	claimTookUpgrade
	claimKeptSilent
	claimStreamRefused
	claimBehindListener
	claimCutFront
	claimWorkloadWay
)

// claims has a row for every claim. words is a template of fmt; forbidden reports whether a fact of the walk
// contradicts the claim (nil: none can), where f is the fact that decided the finding.
var claims = [...]struct {
	words     string
	forbidden func(c *Case, f *diag.Fact) bool
}{
	claimPlatformDown: {
		"; the node gets no valid answer from its API either, so the control plane is at fault, not the operator's network " +
			"path",
		func(c *Case, _ *diag.Fact) bool {
			// the API, asked at the edge of the terminal route
			other := c.fact(factID(diag.HopTerminalPublicRoute, stepHealthz) + "~" + counterOtherRoute)
			return nodeHears(c) != silentSide || other.Passed() || answeredSomewhere(c, Operator, c.expected("api_base"), "http")
		},
	},
	claimOperatorWay: {
		"; the node API answers the node, so the fault is on the operator's network path",
		func(c *Case, f *diag.Fact) bool {
			reach := c.Fact(diag.HopNodeRuntimeAPI, stepReach)
			return noOperatorWay(c, f) || reach == nil || hostPortOf(target(reach)) != hostPortOf(target(f))
		},
	},
	claimPlatformLives: {
		"; the node API, at another address, answers the node, so the fault is at this one or on the operator's network path",
		noOperatorWay,
	},
	claimNodeWay: {
		"; the operator gets an answer, so the fault is on this node's path",
		func(c *Case, f *diag.Fact) bool {
			return comesAndGoes(c, f) || answeredSomewhere(c, Node, target(f), f.Phase)
		},
	},
	claimNotThisNode: {
		"; the operator's request fails as well, so the fault is not this node's",
		func(c *Case, f *diag.Fact) bool {
			control := c.fact(f.ID + "~" + counterFromOperator)
			return (control != nil && control.Failure.Local()) || comesAndGoes(c, f) ||
				answeredSomewhere(c, Operator, target(f), f.Phase) || answeredSomewhere(c, Node, target(f), f.Phase)
		},
	},
	claimOnlyLookup:    {"; at %s it answers, so only the look-up is at fault", nil},
	claimOnlyAgentSees: {", and only in the agent's view of the files", nil},
	claimAgentView:     {"; it resolves correctly from a login, so something overlays the files that the agent sees", nil},
	claimAgentMounts:   {"; the same request in a login's view passes, so the agent's own mounts are at fault", nil},
	claimMachine: {
		"; SSH to the node gets no answer either, so the machine or its network is at fault",
		func(c *Case, _ *diag.Fact) bool { return !sshSilent(c) || passedFrom(c, Node) },
	},
	claimAgentAlive: {
		"; the agent itself reports, so it is not down",
		func(c *Case, _ *diag.Fact) bool { return !contactFresh(c) || agentDown(c) },
	},
	claimTookUpgrade: {
		"; the gateway's session row has no browser, so something in front of the gateway answered the upgrade",
		func(c *Case, _ *diag.Fact) bool { return !browserNeverReachedGateway(c) },
	},
	claimKeptSilent: {
		"; the gateway's session row has the node's stream and the shell's state, so the gateway did not forward it",
		func(c *Case, f *diag.Fact) bool { return !streamCame(c) || !pongCame(f) },
	},
	claimStreamRefused: {
		"; the gateway refused the node's certificate, so no stream arrived",
		func(c *Case, _ *diag.Fact) bool {
			t := c.Fact(diag.HopNodeTerminalReachability, stepStream)
			return streamCame(c) || (t != nil && (t.Passed() || sessionNotFound(t)))
		},
	},
	claimCutFront: {
		"; the gateway did not end it, so something between browser and gateway cut it",
		func(c *Case, _ *diag.Fact) bool {
			reason := sessionField(c, "session.close_reason")
			return status(c.Fact(diag.HopTerminalOpenTask, stepSessionRow)) != 200 || (reason != "" && reason != browserLeft)
		},
	},
	claimWorkloadWay: {
		"; the port answers on the node itself, so the fault is between the platform's host and the workload",
		func(c *Case, _ *diag.Fact) bool {
			return !c.Fact(diag.HopAppRuntimeLiveness, stepPort).Passed() || !endpointIsNodes(c)
		},
	},
	claimBehindListener: {
		"; the listener answers, so the fault is behind it",
		func(c *Case, f *diag.Fact) bool {
			// A connection that was not made did not come so far, and a silence may be an answer that was lost on its way back.
			// A 503 page may be the listener's own: for maintenance, or of a limit.
			return (status(f) == 503 && f.HTTP.Page == "edge_error") || inPhase(f, "dns", "tcp", "tls") || hungUp(f) ||
				gotNoAnswer(f) || (status(f) == 0 && !listenerAnswers(c))
		},
	},
}

// comesAndGoes reports whether another run of the same request came further than f. Then an answer elsewhere does not
// show where this one failed.
func comesAndGoes(c *Case, f *diag.Fact) bool {
	step, _, _ := splitID(f.ID)
	q := question(c, step, "")
	return q != nil && slices.ContainsFunc(q.runs, func(r *diag.Fact) bool { return further(r, f) })
}

// noOperatorWay reports whether f, a fact of the operator, contradicts a fault on the operator's path, or whether the
// node gets no answer either.
func noOperatorWay(c *Case, f *diag.Fact) bool {
	return nodeHears(c) != answeredSide || status(f) != 0 || comesAndGoes(c, f) || rung(f.Phase) > rung("tls") ||
		answeredSomewhere(c, Operator, target(f), f.Phase)
}

// claim adds the text of a claim to the finding, unless a fact of the walk forbids it, and reports whether it did.
func claim(c *Case, out *diag.Finding, id claimID, args ...any) bool {
	row := claims[id]
	if len(out.Evidence) > 0 {
		if f := c.fact(out.Evidence[0]); f != nil && gotNoAnswer(f) && lossSeen(c, f.Vantage) != "" {
			return false // silence on a lossy path supports no claim
		}
	}
	if row.forbidden != nil && (len(out.Evidence) == 0 || row.forbidden(c, c.fact(out.Evidence[0]))) {
		return false
	}
	words := row.words
	if len(args) > 0 {
		words = fmt.Sprintf(words, args...)
	}
	out.Text += words
	return true
}

// answeredSomewhere reports whether a step's probe from a vantage got past a phase at an endpoint, which is what a
// failing probe there could not do. Counter-probes do not count: they have another input.
func answeredSomewhere(c *Case, vantage, endpoint, phase string) bool {
	at := hostPortOf(endpoint)
	if at == "" {
		return false
	}
	for f := range c.all() {
		if f.Vantage != vantage || strings.Contains(f.ID, "~") || lost(f) || hostPortOf(target(f)) != at {
			continue
		}
		if (f.Failure == diag.OK && !f.Empty()) ||
			(rung(phase) >= 0 && f.Failure != diag.Cancelled && rung(f.Phase) > rung(phase)) ||
			(status(f) > 0 && status(f) < 500) {
			return true
		}
	}
	return false
}

// passedFrom reports whether any probe from a vantage passed.
func passedFrom(c *Case, vantage string) bool {
	for f := range c.all() {
		if f.Vantage == vantage && f.Passed() && !f.Empty() {
			return true
		}
	}
	return false
}
