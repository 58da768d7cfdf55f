package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/profile"
)

const (
	stepUpgrade  = "upgrade"
	stepHeaders  = "headers"
	stepEndpoint = "endpoint"

	fieldHeaderNames = "app.header_names"
)

// appUserRoute: does the workload's product URL lead to it, as a browser uses it? The WebSocket and the headers that
// the edge adds are probed only if the platform or the profile declares them. If the route fails behind its edge, a
// probe of the workload's endpoint from the platform's host, which has the proxy, shows on which side of the proxy the
// fault is.
func appUserRoute() Hop {
	id := diag.HopAppUserRoute
	return Hop{
		ID: id, Budget: 7 * time.Second, OfWorkload: true,
		ExplainedBy: []diag.HopID{diag.HopAppRuntimeLiveness},
		Silence:     &Silence{diag.SigAppRouteFailed, "", "the request to the product URL"},
		Steps:       appRouteSteps(),
		Judge:       judgeAppRoute,
		Counter: func(e *Env, _ *Case, failing *diag.Fact) []Counter {
			p := e.Profile
			if failing.Vantage != Operator {
				return nil
			}
			other := otherRoute(e, failing, p.AppResolveAddress, p.APIBase, p.APIResolveAddress, profile.PathHealthz)
			return append(plainly(failing), other...)
		},
		Pass: func(c *Case) string {
			text := fmt.Sprintf("%s answers %d", where(c.Fact(id, stepRoute)), status(c.Fact(id, stepRoute)))
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

func appRouteSteps() []Step {
	needs, after := []diag.HopID{diag.HopAllocationBinding}, []string{factID(diag.HopAppUserRoute, stepRoute)}
	return []Step{
		{
			Name: stepRoute, From: Operator, Timeout: 4 * time.Second, Needs: needs, BothFamilies: true,
			After: []string{factID(diag.HopAllocationBinding, stepAllocation)}, Fields: []string{"allocation.app_product_url"},
			When: func(c *Case) string {
				return reasonIfEmpty(allocationField(c, "allocation.app_product_url"), "the allocation has no product URL")
			},
			Ask: func(e *Env, c *Case) diag.Request { return askApp(e, c, diag.OpHTTP, "") },
		},
		{
			Name: stepUpgrade, From: Operator, Timeout: 3 * time.Second, Needs: needs, After: after, When: routeAnswers,
			NotGiven: func(p *profile.Profile) string {
				return reasonIfEmpty(p.App.Websocket+p.Mapping.Field(fieldWebsocket),
					"neither platform nor profile says that workloads use a WebSocket (app.websocket)")
			},
			Unless: func(c *Case) string {
				return reasonIfEmpty(websocketPath(c), "neither platform nor profile says that the workload uses a WebSocket")
			},
			Ask: func(e *Env, c *Case) diag.Request {
				req := askApp(e, c, diag.OpWS, websocketPath(c))
				req.Header["Origin"] = endpointOf(req.Target)
				return req
			},
		},
		{
			Name: stepHeaders, From: Operator, Timeout: 3 * time.Second, Needs: needs, After: after, When: routeAnswers,
			Fields: []string{fieldHeaderNames},
			NotGiven: func(p *profile.Profile) string {
				if p.App.HeadersPath != "" && len(p.App.InjectedHeaders) > 0 {
					return ""
				}
				return "the profile names no headers that the edge injects (app.injected_headers, app.headers_path)"
			},
			Ask: func(e *Env, c *Case) diag.Request {
				req := askApp(e, c, diag.OpHTTP, e.Profile.App.HeadersPath)
				req.Extract = e.Profile.Mapping.Extract(fieldHeaderNames)
				return req
			},
		},
		{
			Name: stepEndpoint, From: Platform, Timeout: 3 * time.Second, Needs: needs, Second: true, After: after,
			Fields: []string{"allocation.app_endpoint"}, Unless: whyNoEndpointProbe,
			Ask: func(_ *Env, c *Case) diag.Request {
				return diag.Request{Op: diag.OpTCP, Target: appEndpoint(c), View: diag.ViewHost}
			},
			// If the route works, nothing is wrong: the proxy need not be on that host. Older walks probed it in
			// any case.
			Excused: func(c *Case, _ *diag.Fact) bool { return c.Fact(diag.HopAppUserRoute, stepRoute).Passed() },
		},
	}
}

// askApp is a request to the workload's product URL, or to path under its host.
func askApp(e *Env, c *Case, op diag.Op, path string) diag.Request {
	url, query := c.URL(diag.HopAllocationBinding, stepAllocation, "allocation.app_product_url")
	if path != "" {
		url = join(endpointOf(url), path)
	}
	return diag.Request{
		Op: op, Target: url, Query: query, Resolve: e.Profile.AppResolveAddress,
		CABundle: e.Profile.Trust.OperatorCA, Header: e.header(), Cookie: e.Cookie,
		InsecureHTTP: e.Profile.InsecureHTTP,
	}
}

// whyNoEndpointProbe returns why the workload's endpoint is not probed, "" if it is: only a route that fails behind its
// edge is worth a login on the platform's host.
func whyNoEndpointProbe(c *Case) string {
	switch f := c.Fact(diag.HopAppUserRoute, stepRoute); {
	case appEndpoint(c) == "":
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
func edgeNotReached(f *diag.Fact) bool { return inPhase(f, "dns", "tcp", "tls") }

// routeAnswers is the condition that the product URL answers.
func routeAnswers(c *Case) string {
	if c.Fact(diag.HopAppUserRoute, stepRoute).Passed() {
		return ""
	}
	return "needs a product URL that answers"
}

// websocketPath returns the path of the workload's WebSocket: from the profile, else from the platform, which may only
// report that the product URL itself accepts one. It is "" if none is declared.
func websocketPath(c *Case) string {
	if p := c.expected("app_websocket"); p != "" {
		return p
	}
	switch v := c.Field(diag.HopAllocationBinding, stepAllocation, fieldWebsocket); {
	case strings.HasPrefix(v, "/"):
		return v
	case strings.EqualFold(v, "true"):
		return pathOf(allocationField(c, "allocation.app_product_url"))
	}
	return ""
}

// injected returns the names of the headers that the edge must add.
func injected(c *Case) []string {
	return strings.FieldsFunc(c.expected("app_injected_headers"), func(r rune) bool { return r == ',' })
}

func judgeAppRoute(c *Case) []diag.Finding {
	id := diag.HopAppUserRoute
	f := c.Fact(id, stepRoute)
	switch {
	case f == nil:
		return nil
	case !f.Passed():
		return []diag.Finding{routeFails(c, f)}
	}
	for _, judge := range []func(*Case) *diag.Finding{judgeUpgrade, judgeHeaders} {
		if out := judge(c); out != nil {
			return []diag.Finding{*out}
		}
	}
	return nil
}

func routeFails(c *Case, f *diag.Fact) diag.Finding {
	if loginFirst(f) {
		return undecided(f, "the edge or the workload asks for a login at %s, and %s, so nothing behind the login was tested",
			where(f), cookieOf(f))
	}
	// not an edge's own page: the workload may answer so
	if s := status(f); s >= 400 && s < 500 && f.Failure == diag.HTTPStatus && !portDown(c) {
		out := undecided(f,
			"the product URL at %s answers HTTP %d, which may be the workload's own answer: some serve nothing at "+
				"this path, or nothing without a login", where(f), s)
		out.Signal = diag.SigAppRouteFailed
		return out
	}
	out := fail(diag.SigAppRouteFailed, f, "the product URL at %s fails: %s", where(f), saw(f))
	out.Direct = edgeNotReached(f)
	if !out.Direct {
		sayHolder(c, &out)
	}
	if !out.Direct && sshSilent(c) {
		out.Culprit = culpritSilentNode
	}
	switch e := c.Fact(diag.HopAppUserRoute, stepEndpoint); {
	case e == nil || out.Direct:
	case e.Passed():
		out.Text += fmt.Sprintf("; the workload's endpoint %s answers the platform's host", e.Request.Target)
	case inPhase(e, "tcp"):
		out.Text += fmt.Sprintf("; the workload's endpoint %s does not answer the platform's host either: %s",
			e.Request.Target, saw(e))
		if claim(c, &out, claimWorkloadWay) {
			out.Side = diag.SideNodeWay
		}
	}
	return out
}

// portDown reports whether the workload's port was probed on its node and failed, and its unit does not listen there.
func portDown(c *Case) bool {
	f := c.Fact(diag.HopAppRuntimeLiveness, stepPort)
	return f != nil && !f.Passed() && !listensAt(c.Fact(diag.HopAppRuntimeLiveness, stepUnit), appPort(c))
}

// loginFirst reports whether an edge or the workload asks for a login, so that nothing behind it was measured.
func loginFirst(f *diag.Fact) bool { return f.Failure == diag.HTTPEdgeAuth }

// judgeUpgrade judges the WebSocket upgrade, which a product URL that answers a plain request may still refuse.
func judgeUpgrade(c *Case) *diag.Finding {
	f := c.Fact(diag.HopAppUserRoute, stepUpgrade)
	if f == nil || f.Passed() {
		return nil
	}
	var out diag.Finding
	switch {
	case loginFirst(f):
		out = undecided(f, "the edge or the workload asks for a login before the WebSocket upgrade, and %s", cookieOf(f))
	case status(f)/100 == 3: // often a login's
		out = undecided(f, "%s sends the WebSocket upgrade elsewhere, so nothing behind it was tested: %s", where(f), saw(f))
	default:
		out = fail(diag.SigAppRouteFailed, f, "%s answers HTTP %d, and refuses the WebSocket upgrade of %s: %s",
			where(f), status(c.Fact(diag.HopAppUserRoute, stepRoute)), pathOf(target(f)), saw(f))
		sayHolder(c, &out)
	}
	return &out
}

// judgeHeaders compares the headers that the workload received with those that the edge must add.
func judgeHeaders(c *Case) *diag.Finding {
	f := c.Fact(diag.HopAppUserRoute, stepHeaders)
	if f == nil {
		return nil
	}
	var got []string
	var out diag.Finding
	switch {
	case loginFirst(f):
		out = undecided(f, "the edge or the workload asks for a login, and %s: an edge injects headers only after that",
			cookieOf(f))
		return &out
	case !f.Passed():
		out = undecided(f, "the headers that the workload receives could not be read: %s", saw(f))
		return &out
	case bounded.Unmarshal([]byte(c.Field(diag.HopAppUserRoute, stepHeaders, fieldHeaderNames)), &got,
		bounded.Answer()) != nil:
		out = unmapped(f, "the answer lists no header names (%s)", fieldHeaderNames)
		return &out
	}
	missing := slices.DeleteFunc(injected(c), func(want string) bool {
		return slices.ContainsFunc(got, func(name string) bool { return strings.EqualFold(name, want) })
	})
	if len(missing) == 0 {
		return nil
	}
	out = fail(diag.SigAppRouteFailed, f, "%s answers, and the workload received no %s, which the edge has to inject",
		where(f), strings.Join(missing, ", "))
	return &out
}
