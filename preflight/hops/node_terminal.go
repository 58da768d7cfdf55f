package hops

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// nodeTerminalReachability: does the node reach the node-facing terminal listener that its running agent uses?
func nodeTerminalReachability() hop.Hop {
	id := diag.HopNodeTerminalReachability
	return hop.Hop{
		ID: id, Absent: hop.NoTerminalSite, Agent: true, Budget: 9 * time.Second,
		Causes: hop.Causes{
			Behind: hop.PlatformReads(), Reads: []diag.HopID{diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
		},
		About: hop.About{
			Clears: diag.AboutTerminalWay,
			AgentCame: func(c *hop.Case) string {
				if world.StreamCame(c) {
					return "the agent's stream came to the gateway in this walk"
				}
				return ""
			},
		},
		Fields: []string{hop.FieldErrorCode}, // distinguishes the gateway's 404 from any other
		Silence: &hop.Silence{Signal: diag.SigNodeStreamTimeout, Side: "",
			Request: "the node's request to the terminal listener"},
		Steps: []hop.Step{{
			Name: hop.StepStream, From: hop.Node, Timeout: 4 * time.Second,
			Needs: hop.Needs{Hops: []diag.HopID{diag.HopNodeOpsAccess}, Paths: []string{profile.PathNodeTerminal},
				Profile: hop.NeverIf(noAgentTerminal)},
			Policy: hop.Policy{BothFamilies: true},
			Excused: func(c *hop.Case, f *diag.Fact) bool {
				return (reading.SessionNotFound(f) || unnamed404(f) || refusedUnknownSession(c, f)) && !streamsElsewhere(c, f)
			},
			Ask: world.AskUnknownSession,
		}},
		Judge: nodeTerminalRows.about(id, hop.StepStream),
		Pass: func(c *hop.Case) string {
			return fmt.Sprintf("%s accepts this node (%s)", reading.Where(c.Fact(id, hop.StepStream)), answered(c.Fact(id,
				hop.StepStream)))
		},
		Counter: func(e *hop.Env, _ *hop.Case, failing *diag.Fact) []hop.Counter {
			if reading.SessionNotFound(failing) {
				return nil
			}
			counters := reading.FromOperator(e, failing, e.Profile.NodeTerminalResolveAddress)
			vars := map[string]string{"session_id": hop.UnknownSessionID}
			counters = append(counters, world.OtherListener(e, failing, e.Profile.NodeRuntimeAPIURL, profile.PathTaskWait,
				nil)...)
			return append(counters, world.ProfileURL(e, failing, e.Profile.NodeTerminalURL, profile.PathNodeTerminal, vars)...)
		},
	}
}

func answered(f *diag.Fact) string {
	if reading.Code(f) != "" {
		return reading.Code(f)
	}
	return fmt.Sprintf("HTTP %d", reading.Status(f))
}

// unnamed404 reports whether the listener accepted the node and answered 404, on a platform whose errors have no code
// that would show who answered.
func unnamed404(f *diag.Fact) bool {
	return reading.Status(f) == 404 && f.Failure == diag.WSUpgradeRejected && reading.Unasked(f, hop.FieldErrorCode)
}

// refusedUnknownSession reports whether a refusal is about the session, which does not exist, and not about the node:
// the gateway accepted the node's stream for a real session in this walk.
func refusedUnknownSession(c *hop.Case, f *diag.Fact) bool {
	s := reading.Status(f)
	return s >= 400 && s < 500 && f.Failure == diag.WSUpgradeRejected && !f.Throttled() && world.StreamCame(c) &&
		world.OtherNodeText(c, "") == ""
}

// streamsElsewhere reports whether f asked a terminal listener other than the profile's, namely the running agent's.
func streamsElsewhere(c *hop.Case, f *diag.Fact) bool {
	want := c.Expected("node_terminal_url")
	return want != "" && f.Target != "" && !hop.SameEndpoint(f.Target, want)
}

var nodeTerminalRows = rows{
	{when: func(j judged) bool { return world.BlockedByNamespace(j.c, j.f) != nil },
		then: func(j judged) diag.Finding { return *world.BlockedByNamespace(j.c, j.f) }},
	{when: func(j judged) bool { return takenOrUnknown(j.f) && streamBlocked(j) != nil },
		then: func(j judged) diag.Finding { return *streamBlocked(j) }},
	// it works today, by a route that is not maintained
	{when: func(j judged) bool { return streamsElsewhere(j.c, j.f) && takenOrUnknown(j.f) },
		then: fails(diag.SigTerminalProfileDrift, "the running agent streams to %s, the profile says %s; the agent's "+
			"endpoint accepts this node", where, profilesTerminal),
		failure: diag.FileMismatch, reason: diag.ReasonNone, direct: true},
	{when: func(j judged) bool { return takenOrUnknown(j.f) || unnamed404(j.f) }},
	{when: func(j judged) bool { return refusedUnknownSession(j.c, j.f) && !streamsElsewhere(j.c, j.f) }},
	{when: func(j judged) bool { return reading.NotAllowed(j.f) },
		then: undecided("this login may not read what the agent uses: %s", saw)},
	{
		when: func(j judged) bool {
			return world.NamesNoURL(j.c, j.f) || (reading.InPhase(j.f, "env") && !terminalKnown(j.c))
		},
		then: func(j judged) diag.Finding { return reading.NotNamed(j.f, j.c.AgentNames().Terminal) },
	},
	{when: func(j judged) bool { return reading.InPhase(j.f, "env") }, culprit: reading.CulpritAgentEnv,
		then: fails(diag.SigTerminalProfileDrift, "%s", noTerminalURL)},
	{when: func(j judged) bool { return streamsElsewhere(j.c, j.f) },
		then: fails(diag.SigTerminalProfileDrift, "the running agent streams to %s, the profile says %s: %s", where,
			profilesTerminal, saw),
		reason: diag.ReasonTerminalEndpointDrift,
		also:   func(_ judged, out *diag.Finding) { out.Culprit = "" }}, // what is wrong is the agent's URL

	// The stream fails at the expected listener, or on the way to it.
	{when: func(j judged) bool { return j.f.Failure == diag.MTLSNotRequested },
		then: fails(diag.SigTerminalProfileDrift, "%s did not ask for the node's certificate: it is not the node-facing "+
			"listener", where)},
	// also with 401 or 403: nothing behind the limiter has seen the certificate
	{when: func(j judged) bool { return j.f.Throttled() },
		then: func(j judged) diag.Finding { return reading.Throttled(j.f, "this node's terminal stream") }},
	{when: func(j judged) bool { return world.EdgeWithholds(j.c, j.f) },
		then: func(j judged) diag.Finding {
			return reading.HeldBack(diag.SigNodeStreamMTLS, j.f, diag.ReasonTerminalGatewayDown)
		}},
	{when: func(j judged) bool { return j.denied() && !world.DeniesNode(j.c, j.f) },
		then: fails(diag.SigNodeStreamMTLS, "%s, or what is in front of it, refuses the node's stream: HTTP %s %s; %s, so "+
			"whether the platform denies this node is not known", where, httpStatus, code, letIn),
		side: diag.SidePlatform, reason: diag.ReasonTerminalGatewayDown},
	{when: func(j judged) bool { return j.refused() && !reading.PlatformDenies(j.f) && !world.BadOwnCert(j.c) },
		then: fails(diag.SigNodeStreamMTLS, "HTTP %s comes from the terminal listener at %s, or from what is in front of "+
			"it: the answer has %s, so whether the gateway refuses the node's certificate is not known", httpStatus, where,
			noPlatform),
		side: diag.SidePlatform, reason: diag.ReasonTerminalGatewayDown,
		also: func(j judged, out *diag.Finding) {
			if world.OperatorGetsSame(j.c, j.f) {
				out.Culprit = world.CulpritControlPlane
			}
		}},
	// its own files: nothing was sent
	{when: func(j judged) bool { return reading.InPhase(j.f, "cert") },
		then: fails(diag.SigNodeStreamMTLS, "the node has no credential to present to %s: %s", where, saw),
		also: func(j judged, out *diag.Finding) { out.Culprit = culpritCert(j) }},
	{when: streamsCertRefused,
		then: fails(diag.SigNodeStreamMTLS, "%s refuses this node's certificate: %s", where, saw),
		also: func(j judged, out *diag.Finding) {
			switch {
			case world.BadOwnCert(j.c):
				out.Culprit = culpritCert(j)
			case j.refused():
				out.Culprit = reading.CulpritDenied(j.c, j.f)
			}
		}},
	{when: func(j judged) bool { return reading.Distrusts(j.f) && !world.Misdirected(j.c, j.f) },
		then: fails(diag.SigNodeStreamMTLS, "%s: %s%s", distrust, saw, presented),
		also: func(j judged, out *diag.Finding) { world.AddShown(j.c, j.f, "trust.terminal_server", out) }},
	{when: streamUnanswered,
		then: fails(diag.SigNodeStreamTimeout, "the node gets %s from %s: %s", gets, where, saw),
		also: func(j judged, out *diag.Finding) {
			out.Side = world.BesidePath(j.c, j.f)
			world.LocateFault(j.c, j.f, out)
			out.Text += world.ByProvider(j.c)
		}},
	{side: diag.SideEdge,
		then: fails(diag.SigNodeStreamTimeout, "%s, which the agent streams to, or what is in front of it, answers as no "+
			"terminal gateway does: %s", where, saw)},
}

// takenOrUnknown reports whether the gateway took the stream, or only its session, which does not exist, is at fault.
func takenOrUnknown(f *diag.Fact) bool { return f.Passed() || reading.SessionNotFound(f) }

func streamBlocked(j judged) *diag.Finding {
	return world.BlockedByUnit(j.c, j.f, world.AgentUnheard(j.c) || world.StreamMissing(j.c))
}

func profilesTerminal(j judged) string { return hop.EndpointOf(j.c.Expected("node_terminal_url")) }

func noTerminalURL(j judged) string { return reading.NoURL(j.f, j.c.AgentNames().Terminal) }

// noAgentTerminal returns what the profile lacks to ask the terminal listener that the agent uses.
func noAgentTerminal(p *profile.Profile) string {
	if p.Agent.Terminal.Absent() {
		return "the profile does not say how the agent knows its terminal listener (agent.terminal_url)"
	}
	return ""
}

// terminalKnown reports whether the profile names a terminal gateway.
func terminalKnown(c *hop.Case) bool {
	return c.Expected("node_terminal_url") != "" || c.Expected("terminal_base") != ""
}

// streamsCertRefused reports whether the listener refuses the node's certificate, or what a bad one explains.
func streamsCertRefused(j judged) bool {
	return reading.IsMTLS(j.f.Failure) || j.f.Failure == diag.MTLSIngress400 || j.refused() ||
		(reading.Vague(j.f) && reading.RefusesCert(j.f) && world.BadOwnCert(j.c))
}

// streamUnanswered reports whether no gateway answered.
func streamUnanswered(j judged) bool {
	switch j.f.Failure {
	case diag.HTTPTimeout, diag.HTTPNotHTTP, diag.HTTPClosed, diag.TCPReset, diag.TLSALPN:
		return true
	}
	return reading.InPhase(j.f, "dns", "tcp", "tls") || world.Misdirected(j.c, j.f) || j.status() >= 500
}
