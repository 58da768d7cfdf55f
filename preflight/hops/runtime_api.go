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

const (
	agentAPI = "${GPUAAS_API_URL}" // the URL that the running agent uses

)

// nodeRuntimeAPI: does the node reach the API that its running agent uses, with the agent's own bundle? No
// certificate is sent, so that the answer identifies the listener.
func nodeRuntimeAPI() hop.Hop {
	id := diag.HopNodeRuntimeAPI
	return hop.Hop{
		ID: id, Budget: 9 * time.Second,
		Silence: &hop.Silence{Signal: diag.SigAPIUnreachable, Side: "", Request: "the node's request to its API"},
		Clears:  diag.AboutAPIWay, AgentCame: world.AgentAnswered,
		Steps: []hop.Step{{
			Name: hop.StepReach, From: hop.Node, Timeout: 4 * time.Second, Needs: []diag.HopID{diag.HopNodeOpsAccess},
			Excused:      world.ListenerReplied,
			BothFamilies: true,
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
				req := diag.Request{Op: diag.OpHTTP, CABundle: e.AgentFile("ca-bundle.crt"), Header: e.Headers()}
				if http := e.Addressed(req, agentAPI, profile.PathHealthz, nil); http.Op != "" {
					return http
				}
				req.Op, req.Target, req.Header = diag.OpTLS, agentAPI, nil // no path to request: it ends after the handshake
				return req
			},
		}},
		Judge: judgeRuntimeAPI,
		Pass: func(c *hop.Case) string {
			return fmt.Sprintf("%s answers: %s", reading.Where(c.Fact(id, hop.StepReach)), listener(c.Fact(id, hop.StepReach)))
		},
		Counter: func(e *hop.Env, _ *hop.Case, failing *diag.Fact) []hop.Counter {
			if s := reading.Status(failing); reading.InPhase(failing, "http") && s > 0 && s < 500 {
				return nil // it was answered
			}
			counters := reading.FromOperator(e, failing, e.Profile.NodeRuntimeResolveAddress)
			return append(counters, world.ProfileURL(e, failing, e.Profile.NodeRuntimeAPIURL, profile.PathHealthz, nil)...)
		},
	}
}

func judgeRuntimeAPI(c *hop.Case) []diag.Finding {
	f := c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)
	if out := world.BlockedByUnit(c, f, world.AgentUnheard(c)); out != nil && (f.Passed() || world.ListenerReplied(c, f)) {
		return []diag.Finding{*out}
	}
	if out := world.AgentNetworkUnseen(c, f, world.AgentUnheard(c)); out != nil && (f.Passed() ||
		world.ListenerReplied(c, f)) {
		return []diag.Finding{*out}
	}
	if f == nil || f.Passed() {
		return nil
	}
	if out := world.BlockedByNamespace(c, f); out != nil {
		return []diag.Finding{*out}
	}
	switch {
	case reading.NotAllowed(f):
		return []diag.Finding{reading.Undecided(f, "this login may not read what the agent uses: %s", reading.Saw(f))}
	case world.ForeignAgent(c), unnamedAPI(c, f):
		return []diag.Finding{reading.NotNamed(f, "GPUAAS_API_URL")}
	case f.Throttled():
		return []diag.Finding{reading.Throttled(f, "this node")}
	case reading.Distrusts(f) && !world.Misdirected(c, f):
		out := reading.Fail(diag.SigAPITLSFailed, f, "%s: %s%s", reading.Distrust(f), reading.Saw(f), world.Presented(f))
		world.AddShown(c, f, "trust.node_api_server", &out)
		if reading.InPhase(f, "trust") && world.OnlyAgentSees(c, f) {
			out.Side = diag.SideAgent
			world.Claim(c, &out, world.ClaimAgentMounts)
		}
		return []diag.Finding{out}
	case world.PageAlone(c, f):
		return []diag.Finding{reading.Warn("", f, "the health page at %s fails (%s), but the node API there accepts this "+
			"node's task wait; if the platform has another health page or none, set mapping.paths.healthz",
			reading.Where(f), reading.Saw(f))}
	case world.ListenerReplied(c, f):
		return nil
	}
	return []diag.Finding{unreachableAPI(c, f)}
}

// unnamedAPI reports whether neither the agent's environment nor the profile names an API, and it is not known whether
// the agent runs.
func unnamedAPI(c *hop.Case, f *diag.Fact) bool {
	unknown := c.Fact(diag.HopNodeReadiness, hop.StepProcess) == nil
	return unknown && reading.InPhase(f, "env") && c.Expected("node_runtime_api_url") == ""
}

// unreachableAPI is the finding for a node's API that does not answer; the control plane is the culprit if the operator
// gets no answer from it either.
func unreachableAPI(c *hop.Case, f *diag.Fact) diag.Finding {
	out := reading.Fail(diag.SigAPIUnreachable, f, "the node gets %s from %s: %s", world.Gets(f), reading.Where(f),
		reading.Saw(f))
	out.Side = world.BesidePath(c, f)
	if reading.InPhase(f, "env") {
		out.Text, out.Culprit = reading.NoURL(f, "GPUAAS_API_URL"), reading.CulpritAgentEnv
		return out
	}
	if usesOtherAPI(c, f) {
		out.Culprit, out.Reason = world.CulpritAgentURL, diag.ReasonEndpointProfileDrift
		out.Text += "; the profile says " + hop.EndpointOf(c.Expected("node_runtime_api_url"))
		return out
	}
	if !world.LocateFault(c, f, &out) {
		// both vantages reach the server, which ends the connection
		if reading.InPhase(f, "tls") || reading.RefusedAlike(c, f) {
			out.Side = diag.SidePlatform
		}
		if hz := c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz); hz != nil && !hz.Passed() {
			out.Culprit = world.CulpritControlPlane
		}
	}
	return out
}

// usesOtherAPI reports whether f asked an API other than the profile's, namely the running agent's.
func usesOtherAPI(c *hop.Case, f *diag.Fact) bool {
	want := c.Expected("node_runtime_api_url")
	return want != "" && f.Target != "" && !hop.SameEndpoint(f.Target, want)
}

// listener describes the kind of listener that answered a request without a certificate.
func listener(f *diag.Fact) string {
	switch {
	case f.Request.Op == diag.OpTLS && f.Passed():
		return "a TLS listener (this platform has no healthz path to ask it for)"
	case f.Request.Op == diag.OpTLS:
		return "a listener (" + reading.Saw(f) + ")"
	case f.HTTP != nil && f.HTTP.Page == "no_ssl_certificate":
		return "a node ingress that asks for a certificate"
	case reading.InPhase(f, "mtls"):
		return "a listener that refuses a handshake without a client certificate"
	case reading.EndedUnshown(f):
		return "a listener that asks for a client certificate and ends the connection without one"
	case f.Failure == diag.HTTPEdgeAuth:
		return "an edge that asks for a login"
	case reading.Status(f) == 200:
		return "a listener that asks for no certificate (HTTP 200)"
	}
	return fmt.Sprintf("HTTP %d", reading.Status(f))
}
