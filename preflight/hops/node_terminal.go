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
		ID: id, Behind: hop.PlatformReads(), Budget: 9 * time.Second,
		Reads:  []diag.HopID{diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
		Fields: []string{hop.FieldErrorCode}, // distinguishes the gateway's 404 from any other
		Clears: diag.AboutTerminalWay,
		AgentCame: func(c *hop.Case) string {
			if world.StreamCame(c) {
				return "the agent's stream came to the gateway in this walk"
			}
			return ""
		},
		Silence: &hop.Silence{Signal: diag.SigNodeStreamTimeout, Side: "",
			Request: "the node's request to the terminal listener"},
		Steps: []hop.Step{{
			Name: hop.StepStream, From: hop.Node, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopNodeOpsAccess},
			BothFamilies: true, Paths: []string{profile.PathNodeTerminal},
			Excused: func(c *hop.Case, f *diag.Fact) bool {
				return (reading.SessionNotFound(f) || unnamed404(f) || refusedUnknownSession(c, f)) && !streamsElsewhere(c, f)
			},
			Ask: world.AskUnknownSession,
		}},
		Judge: judgeNodeTerminal,
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

func judgeNodeTerminal(c *hop.Case) []diag.Finding {
	f := c.Fact(diag.HopNodeTerminalReachability, hop.StepStream)
	if f == nil {
		return nil
	}
	if out := world.BlockedByNamespace(c, f); out != nil {
		return []diag.Finding{*out}
	}
	if out := world.BlockedByUnit(c, f, world.AgentUnheard(c) || world.StreamMissing(c)); out != nil && (f.Passed() ||
		reading.SessionNotFound(f)) {
		return []diag.Finding{*out}
	}
	want, drifted := c.Expected("node_terminal_url"), streamsElsewhere(c, f)
	var out diag.Finding
	switch {
	case drifted && (f.Passed() || reading.SessionNotFound(f)): // it works today, by a route that is not maintained
		out = reading.Fail(diag.SigTerminalProfileDrift, f,
			"the running agent streams to %s, the profile says %s; the agent's endpoint accepts this node", reading.Where(f),
			hop.EndpointOf(want))
		out.Failure, out.Reason, out.Direct = diag.FileMismatch, diag.ReasonNone, true
	case f.Passed(), reading.SessionNotFound(f), unnamed404(f), refusedUnknownSession(c, f) && !drifted:
		return nil
	case reading.NotAllowed(f):
		return []diag.Finding{reading.Undecided(f, "this login may not read what the agent uses: %s", reading.Saw(f))}
	case reading.InPhase(f, "env") && (world.ForeignAgent(c) || (want == "" && c.Expected("terminal_base") == "")):
		return reading.NotNamed(f, "GPUAAS_TERMINAL_API_URL")
	case reading.InPhase(f, "env"):
		out = reading.Fail(diag.SigTerminalProfileDrift, f, "%s", reading.NoURL(f, "GPUAAS_TERMINAL_API_URL"))
		out.Culprit = reading.CulpritAgentEnv
	case drifted:
		out = reading.Fail(diag.SigTerminalProfileDrift, f, "the running agent streams to %s, the profile says %s: %s",
			reading.Where(f), hop.EndpointOf(want), reading.Saw(f))
		out.Reason, out.Culprit = diag.ReasonTerminalEndpointDrift, ""
	default:
		out = streamFails(c, f)
	}
	return []diag.Finding{out}
}

// streamFails is the finding of a stream that failed at the expected listener, or on the way to it.
func streamFails(c *hop.Case, f *diag.Fact) (out diag.Finding) {
	switch {
	case f.Failure == diag.MTLSNotRequested:
		out = reading.Fail(diag.SigTerminalProfileDrift, f,
			"%s did not ask for the node's certificate: it is not the node-facing listener", reading.Where(f))
	case f.Throttled(): // also with 401 or 403: nothing behind the limiter has seen the certificate
		out = reading.Throttled(f, "this node's terminal stream")
	case world.EdgeWithholds(c, f):
		out = reading.HeldBack(diag.SigNodeStreamMTLS, f, diag.ReasonTerminalGatewayDown)
	case (reading.Status(f) == 401 || reading.Status(f) == 403) && reading.PlatformDenies(f) && !reading.Withheld(f) &&
		!world.DeniesNode(c, f):
		out = reading.Fail(diag.SigNodeStreamMTLS, f,
			"%s, or what is in front of it, refuses the node's stream: HTTP %d %s; %s, so "+
				"whether the platform denies this node is not known", reading.Where(f), reading.Status(f), reading.Code(f),
			world.LetIn(c, f))
		out.Side, out.Reason = diag.SidePlatform, diag.ReasonTerminalGatewayDown
	case (reading.Status(f) == 401 || reading.Status(f) == 403) && !reading.PlatformDenies(f) && !world.BadOwnCert(c):
		out = reading.Fail(diag.SigNodeStreamMTLS, f,
			"HTTP %d comes from the terminal listener at %s, or from what is in front of "+
				"it: the answer has %s, so whether the gateway refuses the node's certificate is not known", reading.Status(f),
			reading.Where(f),
			world.OfNoPlatform(f))
		out.Side, out.Reason = diag.SidePlatform, diag.ReasonTerminalGatewayDown
		if world.OperatorGetsSame(c, f) {
			out.Culprit = world.CulpritControlPlane
		}
	case reading.InPhase(f, "cert"): // its own files: nothing was sent
		out = reading.Fail(diag.SigNodeStreamMTLS, f, "the node has no credential to present to %s: %s", reading.Where(f),
			reading.Saw(f))
		out.Culprit = "node file " + f.Request.Cert
	case reading.IsMTLS(f.Failure), f.Failure == diag.MTLSIngress400, reading.Status(f) == 401, reading.Status(f) == 403,
		reading.Vague(f) && reading.RefusesCert(f) && world.BadOwnCert(c):
		out = reading.Fail(diag.SigNodeStreamMTLS, f, "%s refuses this node's certificate: %s", reading.Where(f),
			reading.Saw(f))
		switch {
		case world.BadOwnCert(c):
			out.Culprit = "node file " + f.Request.Cert
		case reading.Status(f) == 401, reading.Status(f) == 403:
			out.Culprit = reading.CulpritDenied(c, f)
		}
	case reading.Distrusts(f) && !world.Misdirected(c, f):
		out = reading.Fail(diag.SigNodeStreamMTLS, f, "%s: %s%s", reading.Distrust(f), reading.Saw(f), world.Presented(f))
		world.AddShown(c, f, "trust.terminal_server", &out)
	case reading.InPhase(f, "dns", "tcp", "tls") || world.Misdirected(c, f) || reading.Status(f) >= 500 ||
		f.Failure == diag.HTTPTimeout ||
		f.Failure == diag.HTTPNotHTTP ||
		f.Failure == diag.HTTPClosed || f.Failure == diag.TLSALPN:
		out = reading.Fail(diag.SigNodeStreamTimeout, f, "the node gets %s from %s: %s", world.Gets(f), reading.Where(f),
			reading.Saw(f))
		out.Side = world.BesidePath(c, f)
		world.LocateFault(c, f, &out)
		out.Text += world.ByProvider(c)
	default:
		out = reading.Fail(diag.SigNodeStreamTimeout, f,
			"%s, which the agent streams to, or what is in front of it, answers as no "+
				"terminal gateway does: %s", reading.Where(f), reading.Saw(f))
		out.Side = diag.SideEdge
	}
	return out
}
