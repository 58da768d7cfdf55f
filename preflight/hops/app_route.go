package hops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Longer than 300 lines: a hop's requests and its judge are in one file.

const (
	stepUpgrade = "upgrade"
	stepHeaders = "headers"

	fieldHeaderNames = "app.header_names"
)

// appUserRoute: does the workload's product URL lead to it, as a browser uses it? The WebSocket and the headers that
// the edge adds are probed only if the platform or the profile declares them. If the route fails behind its edge, a
// probe of the workload's endpoint from the platform's host, which has the proxy, shows on which side of the proxy the
// fault is.
func appUserRoute() hop.Hop {
	id := diag.HopAppUserRoute
	return hop.Hop{
		ID: id, Budget: 7 * time.Second,
		Causes: hop.Causes{ExplainedBy: []diag.HopID{diag.HopAppRuntimeLiveness}}, Role: hop.Role{OfWorkload: true},
		Silence: &hop.Silence{Signal: diag.SigAppRouteFailed, Side: "", Request: "the request to the product URL"},
		Steps:   appRouteSteps(),
		Judge:   judgeAppRoute,
		Counter: func(e *hop.Env, _ *hop.Case, failing *diag.Fact) []hop.Counter {
			p := e.Profile
			if failing.Vantage != hop.Operator {
				return nil
			}
			other := world.OtherRoute(e, failing, p.AppResolveAddress, p.APIBase, p.APIResolveAddress, profile.PathHealthz)
			return append(reading.Plainly(failing), other...)
		},
		Pass: func(c *hop.Case) string {
			text := fmt.Sprintf("%s answers %d", reading.Where(c.Fact(id, hop.StepRoute)), reading.Status(c.Fact(id,
				hop.StepRoute)))
			if c.Fact(id, stepUpgrade).Passed() {
				text += ", takes a WebSocket"
			}
			if f := c.Fact(id, stepHeaders); f.Passed() {
				text += ", and has the edge's headers: " + strings.Join(injected(c), ", ")
			}
			return text
		},
	}
}

func appRouteSteps() []hop.Step {
	needs, after := []diag.HopID{diag.HopAllocationBinding}, []string{hop.FactID(diag.HopAppUserRoute, hop.StepRoute)}
	return []hop.Step{
		{
			Name: hop.StepRoute, From: hop.Operator, Timeout: 4 * time.Second,
			Needs: hop.Needs{Hops: needs, Facts: []string{hop.FactID(diag.HopAllocationBinding, hop.StepAllocation)},
				Fields: []string{"allocation.app_product_url"}},
			Policy: hop.Policy{BothFamilies: true},
			When: hop.WaitIf(func(c *hop.Case) string {
				return world.ReasonIfEmpty(world.AllocationField(c, "allocation.app_product_url"),
					"the allocation has no product URL")
			}),
			Ask: func(e *hop.Env, c *hop.Case) diag.Request { return askApp(e, c, diag.OpHTTP, "") },
		},
		{
			Name: stepUpgrade, From: hop.Operator, Timeout: 3 * time.Second,
			Needs: hop.Needs{
				Hops: needs, Facts: after,
				Profile: hop.SkipIf(func(p *profile.Profile) string {
					return world.ReasonIfEmpty(p.App.Websocket+p.Mapping.Field(hop.FieldWebsocket),
						"neither platform nor profile says that workloads use a WebSocket (app.websocket)")
				}),
			},
			When: func(c *hop.Case) hop.Gate {
				if websocketPath(c) == "" {
					return hop.Gate{Verdict: hop.Skip, Why: "neither platform nor profile says that the workload uses a WebSocket"}
				}
				return hop.WaitIf(routeAnswers)(c)
			},
			Ask: func(e *hop.Env, c *hop.Case) diag.Request {
				req := askApp(e, c, diag.OpWS, websocketPath(c))
				req.Header["Origin"] = hop.EndpointOf(req.Target)
				return req
			},
		},
		{
			Name: stepHeaders, From: hop.Operator, Timeout: 3 * time.Second,
			Needs: hop.Needs{
				Hops: needs, Facts: after, Fields: []string{fieldHeaderNames},
				Profile: hop.SkipIf(func(p *profile.Profile) string {
					if p.App.HeadersPath != "" && len(p.App.InjectedHeaders) > 0 {
						return ""
					}
					return "the profile names no headers that the edge injects (app.injected_headers, app.headers_path)"
				}),
			},
			When: hop.WaitIf(routeAnswers),
			Ask: func(e *hop.Env, c *hop.Case) diag.Request {
				req := askApp(e, c, diag.OpHTTP, e.Profile.App.HeadersPath)
				req.Extract = e.Profile.Mapping.Extract(fieldHeaderNames)
				return req
			},
		},
		{
			Name: hop.StepEndpoint, From: hop.Platform, Timeout: 3 * time.Second,
			Needs:  hop.Needs{Hops: needs, Facts: after, Fields: []string{"allocation.app_endpoint"}},
			Policy: hop.Policy{Turn: hop.AfterFault}, When: hop.SkipIf(whyNoEndpointProbe),
			// If the route works, nothing is wrong: the proxy need not be on that host. Older walks probed it in
			// any case.
			Excused: func(c *hop.Case, _ *diag.Fact) bool { return c.Fact(diag.HopAppUserRoute, hop.StepRoute).Passed() },
			Ask: func(_ *hop.Env, c *hop.Case) diag.Request {
				return diag.Request{Op: diag.OpTCP, Target: world.AppEndpoint(c), View: diag.ViewHost}
			},
		},
	}
}

// askApp is a request to the workload's product URL, or to path under its host.
func askApp(e *hop.Env, c *hop.Case, op diag.Op, path string) diag.Request {
	url, query := c.URL(diag.HopAllocationBinding, hop.StepAllocation, "allocation.app_product_url")
	if path != "" {
		url = hop.Join(hop.EndpointOf(url), path)
	}
	return diag.Request{
		Op: op, Target: url, Query: query, Resolve: e.Profile.AppResolveAddress,
		CABundle: e.Profile.Trust.OperatorCA, Header: e.Headers(), Cookie: e.Cookie,
		InsecureHTTP: e.Profile.InsecureHTTP,
	}
}

// whyNoEndpointProbe returns why the workload's endpoint is not probed, "" if it is: only a route that fails behind its
// edge is worth a login on the platform's host.
func whyNoEndpointProbe(c *hop.Case) string {
	switch f := c.Fact(diag.HopAppUserRoute, hop.StepRoute); {
	case world.AppEndpoint(c) == "":
		return "the platform names no endpoint of the workload"
	case f == nil:
		return "the product URL was not asked"
	case f.Passed():
		return "the product URL answers"
	case edgeNotReached(f):
		return "the product URL's edge was not reached"
	}
	return ""
}

// edgeNotReached reports whether a route failed before its edge. A dead workload is behind the edge, and not the cause.
func edgeNotReached(f *diag.Fact) bool { return reading.InPhase(f, "dns", "tcp", "tls") }

// routeAnswers is the condition that the product URL answers.
func routeAnswers(c *hop.Case) string {
	if c.Fact(diag.HopAppUserRoute, hop.StepRoute).Passed() {
		return ""
	}
	return "needs a product URL that answers"
}

// websocketPath returns the path of the workload's WebSocket: from the profile, else from the platform, which may only
// report that the product URL itself accepts one. It is "" if none is declared.
func websocketPath(c *hop.Case) string {
	if p := c.Expected("app_websocket"); p != "" {
		return p
	}
	switch v := c.Field(diag.HopAllocationBinding, hop.StepAllocation, hop.FieldWebsocket); {
	case strings.HasPrefix(v, "/"):
		return v
	case strings.EqualFold(v, "true"):
		return hop.PathOf(world.AllocationField(c, "allocation.app_product_url"))
	}
	return ""
}

// injected returns the names of the headers that the edge must add.
func injected(c *hop.Case) []string {
	return strings.FieldsFunc(c.Expected("app_injected_headers"), func(r rune) bool { return r == ',' })
}

func judgeAppRoute(c *hop.Case) []diag.Finding {
	id := diag.HopAppUserRoute
	f := c.Fact(id, hop.StepRoute)
	switch {
	case f == nil:
		return nil
	case !f.Passed():
		return []diag.Finding{routeFails(c, f)}
	}
	for _, judge := range []func(*hop.Case) *diag.Finding{judgeUpgrade, judgeHeaders} {
		if out := judge(c); out != nil {
			return []diag.Finding{*out}
		}
	}
	return nil
}

func routeFails(c *hop.Case, f *diag.Fact) diag.Finding {
	if loginFirst(f) {
		return reading.Undecided(f,
			"the edge or the workload asks for a login at %s, and %s, so nothing behind the login was tested",
			reading.Where(f), reading.CookieOf(f))
	}
	// not an edge's own page: the workload may answer so
	if s := reading.Status(f); s >= 400 && s < 500 && f.Failure == diag.HTTPStatus && !portDown(c) {
		out := reading.Undecided(f,
			"the product URL at %s answers HTTP %d, which may be the workload's own answer: some serve nothing at "+
				"this path, or nothing without a login", reading.Where(f), s)
		out.Signal = diag.SigAppRouteFailed
		return out
	}
	out := reading.Fail(diag.SigAppRouteFailed, f, "the product URL at %s fails: %s", reading.Where(f), reading.Saw(f))
	out.Direct = edgeNotReached(f)
	if !out.Direct {
		world.SayHolder(c, &out)
	}
	if !out.Direct && world.SSHSilent(c) {
		out.Culprit = world.CulpritSilentNode
	}
	switch e := c.Fact(diag.HopAppUserRoute, hop.StepEndpoint); {
	case e == nil || out.Direct:
	case e.Passed():
		out.Text += fmt.Sprintf("; the workload's endpoint %s answers the platform's host", e.Request.Target)
	case reading.InPhase(e, "tcp"):
		out.Text += fmt.Sprintf("; the workload's endpoint %s does not answer the platform's host either: %s",
			e.Request.Target, reading.Saw(e))
		if at := world.OnlyAtLoopback(c, e); at != "" {
			out.Text += "; the workload listens only at " + at + ", where no other machine can connect"
			out.Side = diag.SideWorkload
		} else if world.Claim(c, &out, world.ClaimWorkloadWay) {
			out.Side = diag.SideNodeWay
		}
	}
	return out
}

// portDown reports whether the workload's port was probed on its node and failed, and its unit does not listen there.
func portDown(c *hop.Case) bool {
	f := c.Fact(diag.HopAppRuntimeLiveness, hop.StepPort)
	return f != nil && !f.Passed() && !world.ListensAt(c.Fact(diag.HopAppRuntimeLiveness, hop.StepUnit), world.AppPort(c))
}

// loginFirst reports whether an edge or the workload asks for a login, so that nothing behind it was measured.
func loginFirst(f *diag.Fact) bool { return f.Failure == diag.HTTPEdgeAuth }

// judgeUpgrade judges the WebSocket upgrade, which a product URL that answers a plain request may still refuse.
func judgeUpgrade(c *hop.Case) *diag.Finding {
	f := c.Fact(diag.HopAppUserRoute, stepUpgrade)
	if f == nil || f.Passed() {
		return nil
	}
	var out diag.Finding
	switch {
	case loginFirst(f):
		out = reading.Undecided(f, "the edge or the workload asks for a login before the WebSocket upgrade, and %s",
			reading.CookieOf(f))
	case reading.Status(f)/100 == 3: // often a login's
		out = reading.Undecided(f, "%s sends the WebSocket upgrade elsewhere, so nothing behind it was tested: %s",
			reading.Where(f), reading.Saw(f))
	default:
		out = reading.Fail(diag.SigAppRouteFailed, f, "%s answers HTTP %d, and refuses the WebSocket upgrade of %s: %s",
			reading.Where(f), reading.Status(c.Fact(diag.HopAppUserRoute, hop.StepRoute)), hop.PathOf(reading.Target(f)),
			reading.Saw(f))
		world.SayHolder(c, &out)
	}
	return &out
}

// judgeHeaders compares the headers that the workload received with those that the edge must add.
func judgeHeaders(c *hop.Case) *diag.Finding {
	f := c.Fact(diag.HopAppUserRoute, stepHeaders)
	if f == nil {
		return nil
	}
	var got []string
	var out diag.Finding
	switch {
	case loginFirst(f):
		out = reading.Undecided(f,
			"the edge or the workload asks for a login, and %s: an edge injects headers only after that", reading.CookieOf(f))
		return &out
	case !f.Passed():
		out = reading.Undecided(f, "the headers that the workload receives could not be read: %s", reading.Saw(f))
		return &out
	case bounded.Unmarshal([]byte(c.Field(diag.HopAppUserRoute, stepHeaders, fieldHeaderNames)), &got,
		bounded.Answer()) != nil:
		out = reading.Unmapped(f, "the answer lists no header names (%s)", fieldHeaderNames)
		return &out
	}
	missing := slices.DeleteFunc(injected(c), func(want string) bool {
		return slices.ContainsFunc(got, func(name string) bool { return strings.EqualFold(name, want) })
	})
	if len(missing) == 0 {
		return nil
	}
	out = reading.Fail(diag.SigAppRouteFailed, f,
		"%s answers, and the workload received no %s, which the edge has to inject",
		reading.Where(f), strings.Join(missing, ", "))
	return &out
}
