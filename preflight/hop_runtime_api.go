package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	agentAPI = "${GPUAAS_API_URL}" // the URL that the running agent uses

)

// nodeRuntimeAPI: does the node reach the API that its running agent uses, with the agent's own bundle? No
// certificate is sent, so that the answer identifies the listener.
func nodeRuntimeAPI() Hop {
	id := diag.HopNodeRuntimeAPI
	return Hop{
		ID: id, Budget: 9 * time.Second,
		Silence: &Silence{diag.SigAPIUnreachable, "", "the node's request to its API"},
		Clears:  diag.AboutAPIWay, AgentCame: agentAnswered,
		Steps: []Step{{
			Name: stepReach, From: Node, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopNodeOpsAccess},
			Excused:      listenerReplied,
			BothFamilies: true,
			Ask: func(e *Env, _ *Case) diag.Request {
				req := diag.Request{Op: diag.OpHTTP, CABundle: e.agentFile("ca-bundle.crt"), Header: e.header()}
				if http := e.to(req, agentAPI, profile.PathHealthz, nil); http.Op != "" {
					return http
				}
				req.Op, req.Target, req.Header = diag.OpTLS, agentAPI, nil // no path to request: it ends after the handshake
				return req
			},
		}},
		Judge: judgeRuntimeAPI,
		Pass: func(c *Case) string {
			return fmt.Sprintf("%s answers: %s", where(c.Fact(id, stepReach)), listener(c.Fact(id, stepReach)))
		},
		Counter: func(e *Env, _ *Case, failing *diag.Fact) []Counter {
			if s := status(failing); inPhase(failing, "http") && s > 0 && s < 500 {
				return nil // it was answered
			}
			counters := fromOperator(e, failing, e.Profile.NodeRuntimeResolveAddress)
			return append(counters, profileURL(e, failing, e.Profile.NodeRuntimeAPIURL, profile.PathHealthz, nil)...)
		},
	}
}

func judgeRuntimeAPI(c *Case) []diag.Finding {
	f := c.Fact(diag.HopNodeRuntimeAPI, stepReach)
	if out := blockedByUnit(c, f, agentUnheard(c)); out != nil && (f.Passed() || listenerReplied(c, f)) {
		return []diag.Finding{*out}
	}
	if out := agentNetworkUnseen(c, f, agentUnheard(c)); out != nil && (f.Passed() || listenerReplied(c, f)) {
		return []diag.Finding{*out}
	}
	if f == nil || f.Passed() {
		return nil
	}
	if out := blockedByNamespace(c, f); out != nil {
		return []diag.Finding{*out}
	}
	switch {
	case notAllowed(f):
		return []diag.Finding{undecided(f, "this login may not read what the agent uses: %s", saw(f))}
	case foreignAgent(c), unnamedAPI(c, f):
		return notNamed(f, "GPUAAS_API_URL")
	case f.Throttled():
		return []diag.Finding{throttled(f, "this node")}
	case distrusts(f) && !misdirected(c, f):
		out := fail(diag.SigAPITLSFailed, f, "%s: %s%s", distrust(f), saw(f), presented(f))
		if inPhase(f, "trust") && onlyAgentSees(c, f) {
			out.Side = diag.SideAgent
			claim(c, &out, claimAgentMounts)
		}
		return []diag.Finding{out}
	case pageAlone(c, f):
		return []diag.Finding{warn("", f, "the health page at %s fails (%s), but the node API there accepts this "+
			"node's task wait; if the platform has another health page or none, set mapping.paths.healthz",
			where(f), saw(f))}
	case listenerReplied(c, f):
		return nil
	}
	return []diag.Finding{unreachableAPI(c, f)}
}

// unnamedAPI reports whether neither the agent's environment nor the profile names an API, and it is not known whether
// the agent runs.
func unnamedAPI(c *Case, f *diag.Fact) bool {
	unknown := c.Fact(diag.HopNodeReadiness, stepProcess) == nil
	return unknown && inPhase(f, "env") && c.expected("node_runtime_api_url") == ""
}

// unreachableAPI is the finding for a node's API that does not answer; the control plane is the culprit if the operator
// gets no answer from it either.
func unreachableAPI(c *Case, f *diag.Fact) diag.Finding {
	out := fail(diag.SigAPIUnreachable, f, "the node gets %s from %s: %s", gets(f), where(f), saw(f))
	out.Side = besidePath(c, f)
	if inPhase(f, "env") {
		out.Text, out.Culprit = noURL(f, "GPUAAS_API_URL"), culpritAgentEnv
		return out
	}
	if usesOtherAPI(c, f) {
		out.Culprit, out.Reason = culpritAgentURL, diag.ReasonEndpointProfileDrift
		out.Text += "; the profile says " + endpointOf(c.expected("node_runtime_api_url"))
		return out
	}
	if !locateFault(c, f, &out) {
		if inPhase(f, "tls") || refusedAlike(c, f) { // both vantages reach the server, which ends the connection
			out.Side = diag.SidePlatform
		}
		if hz := c.Fact(diag.HopControlPlaneAccess, stepHealthz); hz != nil && !hz.Passed() {
			out.Culprit = culpritControlPlane
		}
	}
	return out
}

// usesOtherAPI reports whether f asked an API other than the profile's, namely the running agent's.
func usesOtherAPI(c *Case, f *diag.Fact) bool {
	want := c.expected("node_runtime_api_url")
	return want != "" && f.Target != "" && !sameEndpoint(f.Target, want)
}

// listener describes the kind of listener that answered a request without a certificate.
func listener(f *diag.Fact) string {
	switch {
	case f.Request.Op == diag.OpTLS && f.Passed():
		return "a TLS listener (this platform has no healthz path to ask it for)"
	case f.Request.Op == diag.OpTLS:
		return "a listener (" + saw(f) + ")"
	case f.HTTP != nil && f.HTTP.Page == "no_ssl_certificate":
		return "a node ingress that asks for a certificate"
	case inPhase(f, "mtls"):
		return "a listener that refuses a handshake without a client certificate"
	case endedUnshown(f):
		return "a listener that asks for a client certificate and ends the connection without one"
	case f.Failure == diag.HTTPEdgeAuth:
		return "an edge that asks for a login"
	case status(f) == 200:
		return "a listener that asks for no certificate (HTTP 200)"
	}
	return fmt.Sprintf("HTTP %d", status(f))
}
