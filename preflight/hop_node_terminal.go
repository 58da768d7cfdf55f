package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// nodeTerminalReachability: does the node reach the node-facing terminal listener that its running agent uses?
func nodeTerminalReachability() Hop {
	id := diag.HopNodeTerminalReachability
	return Hop{
		ID: id, Behind: platformReads(), Budget: 9 * time.Second,
		Reads:  []diag.HopID{diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus},
		Fields: []string{fieldErrorCode}, // distinguishes the gateway's 404 from any other
		Clears: diag.AboutTerminalWay,
		AgentCame: func(c *Case) string {
			if streamCame(c) {
				return "the agent's stream came to the gateway in this walk"
			}
			return ""
		},
		Silence: &Silence{diag.SigNodeStreamTimeout, "", "the node's request to the terminal listener"},
		Steps: []Step{{
			Name: stepStream, From: Node, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopNodeOpsAccess},
			BothFamilies: true, Paths: []string{profile.PathNodeTerminal},
			Excused: func(c *Case, f *diag.Fact) bool {
				return (sessionNotFound(f) || unnamed404(f) || refusedUnknownSession(c, f)) && !streamsElsewhere(c, f)
			},
			Ask: askUnknownSession,
		}},
		Judge: judgeNodeTerminal,
		Pass: func(c *Case) string {
			return fmt.Sprintf("%s accepts this node (%s)", where(c.Fact(id, stepStream)), answered(c.Fact(id, stepStream)))
		},
		Counter: func(e *Env, _ *Case, failing *diag.Fact) []Counter {
			if sessionNotFound(failing) {
				return nil
			}
			counters := fromOperator(e, failing, e.Profile.NodeTerminalResolveAddress)
			vars := map[string]string{"session_id": unknownSessionID}
			counters = append(counters, otherListener(e, failing, e.Profile.NodeRuntimeAPIURL, profile.PathTaskWait, nil)...)
			return append(counters, profileURL(e, failing, e.Profile.NodeTerminalURL, profile.PathNodeTerminal, vars)...)
		},
	}
}

func answered(f *diag.Fact) string {
	if code(f) != "" {
		return code(f)
	}
	return fmt.Sprintf("HTTP %d", status(f))
}

// unnamed404 reports whether the listener accepted the node and answered 404, on a platform whose errors have no code
// that would show who answered.
func unnamed404(f *diag.Fact) bool {
	return status(f) == 404 && f.Failure == diag.WSUpgradeRejected && unasked(f, fieldErrorCode)
}

// refusedUnknownSession reports whether a refusal is about the session, which does not exist, and not about the node:
// the gateway accepted the node's stream for a real session in this walk.
func refusedUnknownSession(c *Case, f *diag.Fact) bool {
	s := status(f)
	return s >= 400 && s < 500 && f.Failure == diag.WSUpgradeRejected && !f.Throttled() && streamCame(c) &&
		otherNodeText(c, "") == ""
}

// streamsElsewhere reports whether f asked a terminal listener other than the profile's, namely the running agent's.
func streamsElsewhere(c *Case, f *diag.Fact) bool {
	want := c.expected("node_terminal_url")
	return want != "" && f.Target != "" && !sameEndpoint(f.Target, want)
}

func judgeNodeTerminal(c *Case) []diag.Finding {
	f := c.Fact(diag.HopNodeTerminalReachability, stepStream)
	if f == nil {
		return nil
	}
	if out := blockedByNamespace(c, f); out != nil {
		return []diag.Finding{*out}
	}
	if out := blockedByUnit(c, f, agentUnheard(c) || streamMissing(c)); out != nil && (f.Passed() || sessionNotFound(f)) {
		return []diag.Finding{*out}
	}
	want, drifted := c.expected("node_terminal_url"), streamsElsewhere(c, f)
	var out diag.Finding
	switch {
	case drifted && (f.Passed() || sessionNotFound(f)): // it works today, by a route that is not maintained
		out = fail(diag.SigTerminalProfileDrift, f,
			"the running agent streams to %s, the profile says %s; the agent's endpoint accepts this node", where(f),
			endpointOf(want))
		out.Failure, out.Reason, out.Direct = diag.FileMismatch, diag.ReasonNone, true
	case f.Passed(), sessionNotFound(f), unnamed404(f), refusedUnknownSession(c, f) && !drifted:
		return nil
	case notAllowed(f):
		return []diag.Finding{undecided(f, "this login may not read what the agent uses: %s", saw(f))}
	case inPhase(f, "env") && (foreignAgent(c) || (want == "" && c.expected("terminal_base") == "")):
		return notNamed(f, "GPUAAS_TERMINAL_API_URL")
	case inPhase(f, "env"):
		out = fail(diag.SigTerminalProfileDrift, f, "%s", noURL(f, "GPUAAS_TERMINAL_API_URL"))
		out.Culprit = culpritAgentEnv
	case drifted:
		out = fail(diag.SigTerminalProfileDrift, f, "the running agent streams to %s, the profile says %s: %s", where(f),
			endpointOf(want), saw(f))
		out.Reason, out.Culprit = diag.ReasonTerminalEndpointDrift, ""
	default:
		out = streamFails(c, f)
	}
	return []diag.Finding{out}
}

// streamFails is the finding of a stream that failed at the expected listener, or on the way to it.
func streamFails(c *Case, f *diag.Fact) (out diag.Finding) {
	switch {
	case f.Failure == diag.MTLSNotRequested:
		out = fail(diag.SigTerminalProfileDrift, f,
			"%s did not ask for the node's certificate: it is not the node-facing listener", where(f))
	case f.Throttled(): // also with 401 or 403: nothing behind the limiter has seen the certificate
		out = throttled(f, "this node's terminal stream")
	case edgeWithholds(c, f):
		out = heldBack(diag.SigNodeStreamMTLS, f, diag.ReasonTerminalGatewayDown)
	case (status(f) == 401 || status(f) == 403) && platformDenies(f) && !withheld(f) && !deniesNode(c, f):
		out = fail(diag.SigNodeStreamMTLS, f, "%s, or what is in front of it, refuses the node's stream: HTTP %d %s; %s, so "+
			"whether the platform denies this node is not known", where(f), status(f), code(f), letIn(c, f))
		out.Side, out.Reason = diag.SidePlatform, diag.ReasonTerminalGatewayDown
	case (status(f) == 401 || status(f) == 403) && !platformDenies(f) && !badOwnCert(c):
		out = fail(diag.SigNodeStreamMTLS, f, "HTTP %d comes from the terminal listener at %s, or from what is in front of "+
			"it: the answer has %s, so whether the gateway refuses the node's certificate is not known", status(f), where(f),
			ofNoPlatform(f))
		out.Side, out.Reason = diag.SidePlatform, diag.ReasonTerminalGatewayDown
		if operatorGetsSame(c, f) {
			out.Culprit = culpritControlPlane
		}
	case inPhase(f, "cert"): // its own files: nothing was sent
		out = fail(diag.SigNodeStreamMTLS, f, "the node has no credential to present to %s: %s", where(f), saw(f))
		out.Culprit = "node file " + f.Request.Cert
	case isMTLS(f.Failure), f.Failure == diag.MTLSIngress400, status(f) == 401, status(f) == 403,
		vague(f) && refusesCert(f) && badOwnCert(c):
		out = fail(diag.SigNodeStreamMTLS, f, "%s refuses this node's certificate: %s", where(f), saw(f))
		switch {
		case badOwnCert(c):
			out.Culprit = "node file " + f.Request.Cert
		case status(f) == 401, status(f) == 403:
			out.Culprit = culpritDenied(c, f)
		}
	case distrusts(f) && !misdirected(c, f):
		out = fail(diag.SigNodeStreamMTLS, f, "%s: %s%s", distrust(f), saw(f), presented(f))
	case inPhase(f, "dns", "tcp", "tls") || misdirected(c, f) || status(f) >= 500 || f.Failure == diag.HTTPTimeout ||
		f.Failure == diag.HTTPNotHTTP ||
		f.Failure == diag.HTTPClosed || f.Failure == diag.TLSALPN:
		out = fail(diag.SigNodeStreamTimeout, f, "the node gets %s from %s: %s", gets(f), where(f), saw(f))
		out.Side = besidePath(c, f)
		locateFault(c, f, &out)
		out.Text += byProvider(c)
	default:
		out = fail(diag.SigNodeStreamTimeout, f, "%s, which the agent streams to, or what is in front of it, answers as no "+
			"terminal gateway does: %s", where(f), saw(f))
		out.Side = diag.SideEdge
	}
	return out
}
