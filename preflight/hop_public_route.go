package preflight

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// terminalPublicRoute: is there a public route to the terminal gateway? Its /healthz is requested, since its root may
// be a proper 404.
func terminalPublicRoute() Hop {
	id := diag.HopTerminalPublicRoute
	return Hop{
		ID: id, Behind: platformReads(), Budget: 7 * time.Second,
		NotGiven: noTerminalBase,
		Silence:  &Silence{diag.SigPublicRouteMissing, "", "the request to the public terminal route"},
		Steps: []Step{{
			Name: stepHealthz, From: Operator, NoAPI: true, Timeout: 4 * time.Second, BothFamilies: true,
			Paths: []string{profile.PathTerminalHealthz},
			Excused: func(c *Case, f *diag.Fact) bool {
				return deniesAccess(f) || (ofPage(f) && gatewayWorks(c))
			},
			Ask: func(e *Env, _ *Case) diag.Request {
				return e.to(diag.Request{
					Op: diag.OpHTTP, Resolve: e.Profile.TerminalResolveAddress, CABundle: e.Profile.Trust.OperatorCA,
					Header: e.header(), Cookie: e.Cookie, InsecureHTTP: e.Profile.InsecureHTTP,
				}, e.Profile.TerminalBase, profile.PathTerminalHealthz, nil)
			},
		}},
		Judge: judgePublicRoute,
		Pass: func(c *Case) string {
			return fmt.Sprintf("%s/healthz answers %d", where(c.Fact(id, stepHealthz)), status(c.Fact(id, stepHealthz)))
		},
		Counter: func(e *Env, _ *Case, failing *diag.Fact) []Counter {
			// If the same edge answers for another name, the route is missing, and not the edge.
			p := e.Profile
			return otherRoute(e, failing, p.TerminalResolveAddress, p.APIBase, p.APIResolveAddress, profile.PathHealthz)
		},
	}
}

func judgePublicRoute(c *Case) []diag.Finding {
	f := c.Fact(diag.HopTerminalPublicRoute, stepHealthz)
	switch {
	case f == nil || (f.Passed() && good(f)): // not good: a redirect passes, but is not the gateway's answer
		return nil
	case deniesAccess(f) && foreignPage(f):
		return []diag.Finding{warn("", f, "%s in place of the gateway's health page, so whether the gateway works was not "+
			"measured", pageFrom(f))}
	case deniesAccess(f):
		return []diag.Finding{warn("", f,
			"%s answers, but its health page %s, so whether the gateway works was not measured; "+
				"set mapping.paths.terminal_healthz to a public page, or to \"-\"", where(f), describeClosedHealthPage(f))}
	case f.Failure == diag.HTTPEdgeAuth:
		return []diag.Finding{undecided(f, "the edge at %s asks for a login, and %s, so nothing behind the "+
			"login was tested", where(f), cookieOf(f))}
	case ofPage(f) && gatewayWorks(c):
		return []diag.Finding{warn("", f, "the health page at %s fails (%s), but the terminal gateway there "+
			"accepts a session; if the platform has another health page or none, set "+
			"mapping.paths.terminal_healthz", where(f)+pathOf(target(f)), saw(f))}
	}
	out := fail(diag.SigPublicRouteMissing, f, "%s %s: %s", where(f)+pathOf(target(f)), publicFails(f), saw(f))
	if s := status(f); s == 502 || s == 504 { // the edge passes the request on, and gets no answer
		out.Side = diag.SidePlatform
	}
	if hz := c.Fact(diag.HopControlPlaneAccess, stepHealthz); hz != nil && hz.TCP != nil && f.TCP != nil &&
		hz.TCP.Remote == f.TCP.Remote {
		switch {
		case hz.Passed():
			out.Text += "; the same edge answers for " + where(hz)
		case inPhase(f, "tcp") && hz.Failure == f.Failure && inPhase(hz, "tcp"):
			if out.Culprit = culpritControlPlane; nodeHears(c) == answeredSide { // one edge, which is not reached at all
				out.Culprit = culpritOperatorWay
			}
		}
	}
	return []diag.Finding{out}
}

// gatewayWorks reports whether the gateway upgraded this walk's session, so that its health page decides nothing.
func gatewayWorks(c *Case) bool { return upgraded(c.Fact(diag.HopBrowserTerminalWS, stepSession)) }

// publicFails describes how the public route fails, as far as its answer shows: only a 404 or 410 means a missing
// route.
func publicFails(f *diag.Fact) string {
	switch s := status(f); {
	case s == 404 || s == 410:
		return "does not exist"
	case s >= 500:
		return "does not work: its edge, or the gateway behind it, answers with an error"
	case s != 0:
		return "does not lead to the gateway"
	}
	return "gives " + gets(f)
}
