package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// A claimID names a conclusion that a finding's text draws from more than its own fact. The text of a claim is only in
// claims, beside the facts that forbid it, so that no finding contradicts a passing fact of the same walk.
type claimID int

const (
	ClaimPlatformDown claimID = iota
	ClaimOperatorWay
	ClaimPlatformLives
	claimNodeWay
	claimendedForNode
	claimNotThisNode
	claimOnlyLookup
	claimOnlyAgentSees
	claimAgentView
	ClaimAgentMounts
	ClaimMachine
	ClaimAgentAlive
	ClaimAgentSeen
	ClaimTookUpgrade
	ClaimKeptSilent
	ClaimStreamRefused
	ClaimBehindListener
	claimCutFront
	ClaimWorkloadWay
	claimTLSEnded
)

// claims has a row for every claim. words is a template of fmt; forbidden reports whether a fact of the walk
// contradicts the claim (nil: none can), where f is the fact that decided the finding.
var claims = [...]struct {
	words     string
	forbidden func(c *hop.Case, f *diag.Fact) bool
}{
	ClaimPlatformDown: {
		"; the node gets no valid answer from its API either, so the control plane is at fault, not the operator's network " +
			"path",
		func(c *hop.Case, _ *diag.Fact) bool {
			// the API, asked at the edge of the terminal route
			other := c.FactByID(hop.FactID(diag.HopTerminalPublicRoute, hop.StepHealthz) + "~" + reading.CounterOtherRoute)
			return !platformOf(c).AnswersNode.No() || other.Passed() ||
				answeredSomewhere(c, hop.Operator, c.Expected("api_base"),
					"http")
		},
	},
	ClaimOperatorWay: {
		"; the node API answers the node, so the fault is on the operator's network path",
		func(c *hop.Case, f *diag.Fact) bool {
			reach := c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)
			return noOperatorWay(c, f) || reach == nil ||
				hop.HostPortOf(reading.Target(reach)) != hop.HostPortOf(reading.Target(f))
		},
	},
	ClaimPlatformLives: {
		"; the node API, at another address, answers the node, so the fault is at this one or on the operator's network path",
		noOperatorWay,
	},
	claimNodeWay: {
		"; the operator gets an answer, so the fault is on this node's path",
		func(c *hop.Case, f *diag.Fact) bool {
			return comesAndGoes(c, f) || answeredSomewhere(c, hop.Node, reading.Target(f), f.Phase)
		},
	},
	claimendedForNode: {
		"; it ends so with and without the node's certificate, and the operator's connection is answered there: something " +
			"between the node and that listener ends the node's",
		func(c *hop.Case, f *diag.Fact) bool {
			return f.Vantage != hop.Node || !reading.EndedUnshown(f) || !endedForNode(c)
		},
	},
	claimNotThisNode: {
		"; the operator's request fails as well, so the fault is not this node's",
		func(c *hop.Case, f *diag.Fact) bool {
			control := c.FactByID(f.ID + "~" + reading.CounterFromOperator)
			return (control != nil && control.Failure.Local()) || comesAndGoes(c, f) ||
				answeredSomewhere(c, hop.Operator, reading.Target(f), f.Phase) || answeredSomewhere(c, hop.Node,
				reading.Target(f), f.Phase)
		},
	},
	claimOnlyLookup:    {"; at %s it answers, so only the look-up is at fault", nil},
	claimOnlyAgentSees: {", and only in the agent's view of the files", nil},
	claimAgentView:     {"; it resolves correctly from a login, so something overlays the files that the agent sees", nil},
	ClaimAgentMounts:   {"; the same request in a login's view passes, so the agent's own mounts are at fault", nil},
	ClaimMachine: {
		"; SSH to the node gets no answer either, so the machine or its network is at fault",
		func(c *hop.Case, _ *diag.Fact) bool { return !SSHSilent(c) || passedFrom(c, hop.Node) },
	},
	ClaimAgentAlive: {
		"; the agent itself reports, so it is not down",
		func(c *hop.Case, f *diag.Fact) bool {
			agent := agentOf(c)
			return !agent.Heard.Yes() || agent.Runs.No() || !heardSince(c, f)
		},
	},
	ClaimAgentSeen: {
		"; the platform had contact with its agent %s before it was asked, and whether it still has is not known",
		func(c *hop.Case, f *diag.Fact) bool {
			agent := agentOf(c)
			return !agent.Heard.Yes() || agent.Runs.No() || heardSince(c, f)
		},
	},
	ClaimTookUpgrade: {
		"; the gateway's session row has no browser, so something in front of the gateway answered the upgrade",
		func(c *hop.Case, _ *diag.Fact) bool { return !gatewayOf(c).SeesBrowser.No() },
	},
	ClaimKeptSilent: {
		"; the gateway's session row has the node's stream and the shell's state, so the gateway did not forward it",
		func(c *hop.Case, f *diag.Fact) bool { return !sessionOf(c).HasStream.Yes() || !reading.PongCame(f) },
	},
	ClaimStreamRefused: {
		"; the gateway refused the node's certificate, so no stream arrived",
		func(c *hop.Case, _ *diag.Fact) bool {
			t := c.Fact(diag.HopNodeTerminalReachability, hop.StepStream)
			return StreamCame(c) || (t != nil && (t.Passed() || reading.SessionNotFound(t)))
		},
	},
	claimCutFront: {
		"; the gateway did not end it, so something between browser and gateway cut it",
		func(c *hop.Case, _ *diag.Fact) bool {
			reason := SessionField(c, "session.close_reason")
			return reading.Status(c.Fact(diag.HopTerminalOpenTask, hop.StepSessionRow)) != 200 || (reason != "" &&
				reason != BrowserLeft)
		},
	},
	ClaimWorkloadWay: {
		"; the port answers on the node itself, so the fault is between the platform's host and the workload",
		func(c *hop.Case, _ *diag.Fact) bool {
			return !c.Fact(diag.HopAppRuntimeLiveness, hop.StepPort).Passed() || !endpointIsNodes(c)
		},
	},
	claimTLSEnded: {", so something on this node's path ends its TLS", comesAndGoes},
	ClaimBehindListener: {
		"; the listener answers, so the fault is behind it",
		func(c *hop.Case, f *diag.Fact) bool {
			// A connection that was not made did not come so far, and a silence may be an answer that was lost on its way back.
			// A 503 page may be the listener's own: for maintenance, or of a limit.
			return (reading.Status(f) == 503 && f.HTTP.Page == "edge_error") || reading.InPhase(f, "dns", "tcp", "tls") ||
				reading.HungUp(f) ||
				reading.GotNoAnswer(f) || (reading.Status(f) == 0 && !listenerAnswers(c))
		},
	},
}

// heardSince reports whether the agent had contact with the platform after f was asked: by its answer in this walk, or
// by a contact that the platform's read model dates so.
func heardSince(c *hop.Case, f *diag.Fact) bool {
	if AnsweredSince(c, f) != "" {
		return true
	}
	read := LastRead(c)
	age, known := ContactAge(c)
	return read != nil && known && read.OffsetMS-age.Milliseconds() >= f.OffsetMS
}

// comesAndGoes reports whether another run of the same request came further than f. Then an answer elsewhere does not
// show where this one failed.
func comesAndGoes(c *hop.Case, f *diag.Fact) bool {
	step, _, _ := hop.SplitID(f.ID)
	q := hop.RequestOf(c, step, "")
	return q != nil && slices.ContainsFunc(q.Runs, func(r *diag.Fact) bool { return reading.Further(r, f) })
}

// noOperatorWay reports whether f, a fact of the operator, contradicts a fault on the operator's path, or whether the
// node gets no answer either.
func noOperatorWay(c *hop.Case, f *diag.Fact) bool {
	return !platformOf(c).AnswersNode.Yes() || reading.Status(f) != 0 || comesAndGoes(c, f) ||
		reading.Rung(f.Phase) > reading.Rung("tls") ||
		answeredSomewhere(c, hop.Operator, reading.Target(f), f.Phase)
}

// Claim adds the text of a claim to the finding, unless a fact of the walk forbids it, and reports whether it did.
func Claim(c *hop.Case, out *diag.Finding, id claimID, args ...any) bool {
	row := claims[id]
	if len(out.Evidence) > 0 {
		if f := c.FactByID(out.Evidence[0]); f != nil && InDoubt(c, ForClaim, f) != "" {
			return false
		}
	}
	if row.forbidden != nil && (len(out.Evidence) == 0 || row.forbidden(c, c.FactByID(out.Evidence[0]))) {
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
func answeredSomewhere(c *hop.Case, vantage, endpoint, phase string) bool {
	at := hop.HostPortOf(endpoint)
	if at == "" {
		return false
	}
	for f := range c.All() {
		if f.Vantage != vantage || strings.Contains(f.ID, "~") || hop.Lost(f) || hop.HostPortOf(reading.Target(f)) != at {
			continue
		}
		if (f.Failure == diag.OK && !f.Empty()) ||
			(reading.Rung(phase) >= 0 && f.Failure != diag.Cancelled && reading.Rung(f.Phase) > reading.Rung(phase)) ||
			(reading.Status(f) > 0 && reading.Status(f) < 500) {
			return true
		}
	}
	return false
}

// passedFrom reports whether any probe from a vantage passed.
func passedFrom(c *hop.Case, vantage string) bool {
	for f := range c.All() {
		if f.Vantage == vantage && f.Passed() && !f.Empty() {
			return true
		}
	}
	return false
}
