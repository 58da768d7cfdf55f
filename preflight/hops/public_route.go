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
		ID: id, Behind: hop.PlatformReads(), Budget: 7 * time.Second,
		// one edge in front of both, which is not reached at all
		Reads:    []diag.HopID{diag.HopControlPlaneAccess},
		NotGiven: hop.NoTerminalBase,
		Silence: &hop.Silence{Signal: diag.SigPublicRouteMissing, Side: "",
			Request: "the request to the public terminal route"},
		Steps: []hop.Step{{
			Name: hop.StepHealthz, From: hop.Operator, NoAPI: true, Timeout: 4 * time.Second, BothFamilies: true,
			Paths: []string{profile.PathTerminalHealthz},
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
		Judge: judgePublicRoute,
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

func judgePublicRoute(c *hop.Case) []diag.Finding {
	f := c.Fact(diag.HopTerminalPublicRoute, hop.StepHealthz)
	switch {
	case f == nil || (f.Passed() && reading.Good(f)): // not good: a redirect passes, but is not the gateway's answer
		return nil
	case world.DeniesAccess(f) && reading.ForeignPage(f):
		return []diag.Finding{reading.Warn("", f,
			"%s in place of the gateway's health page, so whether the gateway works was not "+
				"measured", world.PageFrom(f))}
	case world.DeniesAccess(f):
		return []diag.Finding{reading.Warn("", f,
			"%s answers, but its health page %s, so whether the gateway works was not measured; "+
				"set mapping.paths.terminal_healthz to a public page, or to \"-\"", reading.Where(f),
			world.DescribeClosedHealthPage(f))}
	case f.Failure == diag.HTTPEdgeAuth:
		return []diag.Finding{reading.Undecided(f, "the edge at %s asks for a login, and %s, so nothing behind the "+
			"login was tested", reading.Where(f), reading.CookieOf(f))}
	case reading.OfPage(f) && gatewayWorks(c):
		return []diag.Finding{reading.Warn("", f, "the health page at %s fails (%s), but the terminal gateway there "+
			"accepts a session; if the platform has another health page or none, set "+
			"mapping.paths.terminal_healthz", reading.Where(f)+hop.PathOf(reading.Target(f)), reading.Saw(f))}
	}
	out := reading.Fail(diag.SigPublicRouteMissing, f, "%s %s: %s", reading.Where(f)+hop.PathOf(reading.Target(f)),
		publicFails(f), reading.Saw(f))
	if s := reading.Status(f); s == 502 || s == 504 { // the edge passes the request on, and gets no answer
		out.Side = diag.SidePlatform
	}
	if hz := c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz); hz != nil && hz.TCP != nil && f.TCP != nil &&
		hz.TCP.Remote == f.TCP.Remote {
		switch {
		case hz.Passed():
			out.Text += "; the same edge answers for " + reading.Where(hz)
		case reading.InPhase(f, "tcp") && hz.Failure == f.Failure && reading.InPhase(hz, "tcp"):
			// one edge, which is not reached at all
			if out.Culprit = world.CulpritControlPlane; world.NodeHears(c) == world.AnsweredSide {
				out.Culprit = world.CulpritOperatorWay
			}
		}
	}
	return []diag.Finding{out}
}

// gatewayWorks reports whether the gateway upgraded this walk's session, so that its health page decides nothing.
func gatewayWorks(c *hop.Case) bool {
	return reading.Upgraded(c.Fact(diag.HopBrowserTerminalWS, hop.StepSession))
}

// publicFails describes how the public route fails, as far as its answer shows: only a 404 or 410 means a missing
// route.
func publicFails(f *diag.Fact) string {
	switch s := reading.Status(f); {
	case s == 404 || s == 410:
		return "does not exist"
	case s >= 500:
		return "does not work: its edge, or the gateway behind it, answers with an error"
	case s != 0:
		return "does not lead to the gateway"
	}
	return "gives " + world.Gets(f)
}
