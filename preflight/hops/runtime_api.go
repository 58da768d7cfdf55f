package hops

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// programsPatience is how long a look-up by the node's own programs may take: the C library's own patience with one
// name server is five seconds, and to wait for all of it would make a walk slow.
const programsPatience = 3 * time.Second

// nodeRuntimeAPI: does the node reach the API that its running agent uses, with the agent's own bundle? No
// certificate is sent, so that the answer identifies the listener.
func nodeRuntimeAPI() hop.Hop {
	id := diag.HopNodeRuntimeAPI
	return hop.Hop{
		ID: id, Agent: true, Budget: 9 * time.Second,
		About:   hop.About{Clears: diag.AboutAPIWay, AgentCame: world.AgentAnswered},
		Silence: &hop.Silence{Signal: diag.SigAPIUnreachable, Side: "", Request: "the node's request to its API"},
		Steps: []hop.Step{{
			Name: hop.StepReach, From: hop.Node, Timeout: 4 * time.Second,
			Needs:   hop.Needs{Hops: []diag.HopID{diag.HopNodeOpsAccess}, Profile: hop.NeverIf(noAgentAPI)},
			Policy:  hop.Policy{BothFamilies: true},
			Excused: world.ListenerReplied,
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
				a := &e.Profile.Agent
				req := diag.Request{Op: diag.OpHTTP, CABundle: a.Bundle(), Header: e.Headers()}
				if http := e.Addressed(req, a.API.Ref(), profile.PathHealthz, nil); http.Op != "" {
					return http
				}
				req.Op, req.Target, req.Header = diag.OpTLS, a.API.Ref(), nil // no path to request: it ends after the handshake
				return req
			},
		}, {
			// beside the other: it waits for nothing, and a node without getent is none the worse
			Name: hop.StepPrograms, From: hop.Node, Timeout: programsPatience,
			Needs:  hop.Needs{Hops: []diag.HopID{diag.HopNodeOpsAccess}, Profile: hop.NeverIf(noAgentAPI)},
			Policy: hop.Policy{Optional: true, OnlyWarns: true, Once: func(diag.Request) bool { return true }},
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
				return diag.Request{Op: diag.OpGetent, Target: e.Profile.Agent.API.Ref()}
			},
		}},
		Judge: func(c *hop.Case) []diag.Finding {
			return append(runtimeAPIRows.about(id, hop.StepReach)(c), list(programsFinding(c))...)
		},
		Pass: func(c *hop.Case) string {
			reach := c.Fact(id, hop.StepReach)
			if reach == nil { // the plan leaves it out
				return "the node's programs look its name up"
			}
			return fmt.Sprintf("%s answers: %s", reading.Where(reach), listener(reach))
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

var runtimeAPIRows = rows{
	{when: func(j judged) bool { return listenerWorks(j) && apiBlocked(j) != nil },
		then: func(j judged) diag.Finding { return *apiBlocked(j) }},
	{when: func(j judged) bool { return listenerWorks(j) && reading.UnreadRoots(j.f) != "" },
		then: warns("", "the node trusts %s by its CA bundle %s%s", where, bundle,
			func(j judged) string { return reading.UnreadRoots(j.f) })},
	{when: func(j judged) bool { return j.f.Passed() }},
	{when: func(j judged) bool { return world.BlockedByNamespace(j.c, j.f) != nil },
		then: func(j judged) diag.Finding { return *world.BlockedByNamespace(j.c, j.f) }},
	{when: func(j judged) bool { return reading.NotAllowed(j.f) },
		then: undecided("this login may not read what the agent uses: %s", saw)},
	{when: func(j judged) bool { return world.NamesNoURL(j.c, j.f) || unnamedAPI(j.c, j.f) },
		then: func(j judged) diag.Finding { return reading.NotNamed(j.f, j.c.AgentNames().API) }},
	{when: func(j judged) bool { return j.f.Throttled() },
		then: func(j judged) diag.Finding { return reading.Throttled(j.f, "this node") }},
	{when: func(j judged) bool { return reading.Distrusts(j.f) && !world.Misdirected(j.c, j.f) },
		then: fails(diag.SigAPITLSFailed, "%s: %s%s", distrust, saw, presented),
		also: func(j judged, out *diag.Finding) {
			world.AddShown(j.c, j.f, "trust.node_api_server", out)
			world.AddFolderGone(j.c, out)
			if reading.InPhase(j.f, "trust") && world.OnlyAgentSees(j.c, j.f) {
				out.Side = diag.SideAgent
				world.Claim(j.c, out, world.ClaimAgentMounts)
			}
		}},
	{when: func(j judged) bool { return world.PageAlone(j.c, j.f) },
		then: warns("", "the health page at %s fails (%s), but the node API there accepts this node's task wait; if the "+
			"platform has another health page or none, set mapping.paths.healthz", where, saw)},
	{when: func(j judged) bool { return world.ListenerReplied(j.c, j.f) }},

	// It does not answer.
	{when: func(j judged) bool { return reading.InPhase(j.f, "env") },
		then: fails(diag.SigAPIUnreachable, "%s",
			func(j judged) string { return reading.NoURL(j.f, j.c.AgentNames().API) }),
		culprit: reading.CulpritAgentEnv, also: besidePath},
	{when: func(j judged) bool { return usesOtherAPI(j.c, j.f) },
		then: fails(diag.SigAPIUnreachable, "the node gets %s from %s: %s; the profile says %s", gets, where, saw,
			func(j judged) string { return hop.EndpointOf(j.c.Expected("node_runtime_api_url")) }),
		reason: diag.ReasonEndpointProfileDrift,
		also: func(j judged, out *diag.Finding) {
			out.Culprit = world.CulpritAgentURL(j.c)
			besidePath(j, out)
		}},
	{then: fails(diag.SigAPIUnreachable, "the node gets %s from %s: %s", gets, where, saw),
		also: locateAPI},
}

func bundle(j judged) string { return j.f.Request.CABundle }

func listenerWorks(j judged) bool { return j.f.Passed() || world.ListenerReplied(j.c, j.f) }

// apiBlocked is the finding of an agent that its unit's settings keep, or may keep, from an API that a login reaches.
func apiBlocked(j judged) *diag.Finding {
	unheard := world.AgentUnheard(j.c)
	return cmp.Or(world.BlockedByUnit(j.c, j.f, unheard), world.AgentNetworkUnseen(j.c, j.f, unheard))
}

func besidePath(j judged, out *diag.Finding) { out.Side = world.BesidePath(j.c, j.f) }

// locateAPI adds where the fault is: at the control plane, if the operator gets no answer from it either.
func locateAPI(j judged, out *diag.Finding) {
	if besidePath(j, out); world.LocateFault(j.c, j.f, out) {
		return
	}
	// both vantages reach the server, which ends the connection
	if reading.InPhase(j.f, "tls") || reading.RefusedAlike(j.c, j.f) {
		out.Side = diag.SidePlatform
	}
	if hz := j.c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz); hz != nil && !hz.Passed() {
		out.Culprit = world.CulpritControlPlane
	}
}

// unnamedAPI reports whether neither the agent's environment nor the profile names an API, and it is not known whether
// the agent runs.
func unnamedAPI(c *hop.Case, f *diag.Fact) bool {
	unknown := c.Fact(diag.HopNodeReadiness, hop.StepProcess) == nil
	return unknown && reading.InPhase(f, "env") && c.Expected("node_runtime_api_url") == ""
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

// programsFinding is the finding of the look-up by the node's programs; nil if it is as the walk's own. An agent
// may look names up as they do, or by itself.
func programsFinding(c *hop.Case) *diag.Finding {
	reach, programs := c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach), c.Fact(diag.HopNodeRuntimeAPI, hop.StepPrograms)
	got := reading.ProgramsGet(c, reach, programs)
	if got.Text == "" {
		return nil
	}
	out := reading.Warn(diag.SigNameLookup, programs, "%s", got.Text)
	out.Failure, out.Side = got.Failure, ""
	out.Evidence = append(out.Evidence, reach.ID)
	return &out
}
