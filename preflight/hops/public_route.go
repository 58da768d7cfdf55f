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

// terminalPublicRoute: is there a public route to the terminal gateway? Its /healthz is requested, since its root may
// be a proper 404.
func terminalPublicRoute() hop.Hop {
	id := diag.HopTerminalPublicRoute
	return hop.Hop{
		ID: id, Absent: hop.NoTerminalSite, Budget: 7 * time.Second, Profile: hop.SkipIf(hop.NoTerminalBase),
		// Reads: one edge in front of both, which is not reached at all.
		Causes: hop.Causes{Behind: hop.PlatformReads(), Reads: []diag.HopID{diag.HopControlPlaneAccess}},
		Silence: &hop.Silence{Signal: diag.SigPublicRouteMissing, Side: "",
			Request: "the request to the public terminal route"},
		Steps: []hop.Step{{
			Name: hop.StepHealthz, From: hop.Operator, Timeout: 4 * time.Second,
			Needs:  hop.Needs{NoAPI: true, Paths: []string{profile.PathTerminalHealthz}},
			Policy: hop.Policy{BothFamilies: true},
			Excused: func(c *hop.Case, f *diag.Fact) bool {
				return world.DeniesAccess(f) || (reading.OfPage(f) && gatewayWorks(c))
			},
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
				return e.Addressed(diag.Request{
					Op: diag.OpHTTP, Resolve: e.Profile.TerminalResolveAddress, CABundle: e.Profile.Trust.OperatorCA,
					Header: e.Headers(), Cookie: e.Cookie, InsecureHTTP: e.Profile.InsecureHTTP,
				}, e.Profile.TerminalBase, profile.PathTerminalHealthz, nil)
			},
		}},
		Judge: publicRouteRows.about(id, hop.StepHealthz),
		Pass: func(c *hop.Case) string {
			return fmt.Sprintf("%s/healthz answers %d", reading.Where(c.Fact(id, hop.StepHealthz)), reading.Status(c.Fact(id,
				hop.StepHealthz)))
		},
		Counter: func(e *hop.Env, _ *hop.Case, failing *diag.Fact) []hop.Counter {
			// If the same edge answers for another name, the route is missing, and not the edge.
			p := e.Profile
			return world.OtherRoute(e, failing, p.TerminalResolveAddress, p.APIBase, p.APIResolveAddress, profile.PathHealthz)
		},
	}
}

var publicRouteRows = rows{
	{when: func(j judged) bool { return reading.Good(j.f) && j.f.Passed() }}, // a redirect is not the gateway's answer
	{when: func(j judged) bool { return world.DeniesAccess(j.f) && reading.ForeignPage(j.f) },
		then: warns("", "%s in place of the gateway's health page, so whether the gateway works was not measured",
			pageFrom)},
	{when: func(j judged) bool { return world.DeniesAccess(j.f) },
		then: warns("", "%s answers, but its health page %s, so whether the gateway works was not measured; set "+
			"mapping.paths.terminal_healthz to a public page, or to \"-\"", where, closedPage)},
	{when: func(j judged) bool { return j.f.Failure == diag.HTTPEdgeAuth },
		then: undecided("the edge at %s asks for a login, and %s, so nothing behind the login was tested", where,
			cookie)},
	{when: func(j judged) bool { return reading.OfPage(j.f) && gatewayWorks(j.c) },
		then: warns("", "the health page at %s fails (%s), but the terminal gateway there accepts a session; if the "+
			"platform has another health page or none, set mapping.paths.terminal_healthz", page, saw)},
	{when: func(j judged) bool { return reading.InPhase(j.f, "tls") && reading.Distrusts(j.f) },
		then: fails(diag.SigTerminalEdgeTLS, "%s gives a certificate that does not verify: %s%s%s", where, saw, ownDates,
			presented),
		also: besideAPI},

	// Only a 404 or 410 means a missing route.
	{when: func(j judged) bool { return j.status() == 404 || j.status() == 410 },
		then: fails(diag.SigPublicRouteMissing, "%s does not exist: %s", page, saw), also: besideAPI},
	{when: func(j judged) bool { return j.status() == 502 || j.status() == 504 },
		then: edgeOrGatewayFails, side: diag.SidePlatform, also: besideAPI}, // the edge got no answer
	{when: func(j judged) bool { return j.status() >= 500 }, then: edgeOrGatewayFails, also: besideAPI},
	{when: func(j judged) bool { return j.status() != 0 },
		then: fails(diag.SigPublicRouteMissing, "%s does not lead to the gateway: %s", page, saw), also: besideAPI},
	{then: fails(diag.SigPublicRouteMissing, "%s gives %s: %s", page, gets, saw), also: besideAPI},
}

var edgeOrGatewayFails = fails(diag.SigPublicRouteMissing, "%s does not work: its edge, or the gateway behind it, "+
	"answers with an error: %s", page, saw)

func page(j judged) string { return reading.Where(j.f) + hop.PathOf(reading.Target(j.f)) }

// besideAPI compares a route with the API's if both are at one edge.
func besideAPI(j judged, out *diag.Finding) {
	hz := j.c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz)
	if hz == nil || hz.TCP == nil || j.f.TCP == nil || hz.TCP.Remote != j.f.TCP.Remote {
		return
	}
	switch {
	case hz.Passed():
		out.Text += "; the same edge answers for " + reading.Where(hz)
	case reading.InPhase(j.f, "tcp") && hz.Failure == j.f.Failure && reading.InPhase(hz, "tcp"):
		// one edge, which is not reached at all
		if out.Culprit = world.CulpritControlPlane; world.NodeHears(j.c) == world.AnsweredSide {
			out.Culprit = world.CulpritOperatorWay
		}
	}
}

// gatewayWorks reports whether the gateway upgraded this walk's session, so that its health page decides nothing.
func gatewayWorks(c *hop.Case) bool {
	return reading.Upgraded(c.Fact(diag.HopBrowserTerminalWS, hop.StepSession))
}
