package hops

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// controlPlaneAccess: can the operator reach the API, and is the operator let in?
func controlPlaneAccess() hop.Hop {
	id := diag.HopControlPlaneAccess
	return hop.Hop{
		ID: id, Budget: 8 * time.Second,
		About: hop.About{NotOfNode: func(c *hop.Case) bool { // only this operator is known to be cut off
			wait := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
			return reading.Admitted(wait) || (wait == nil && c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach) == nil)
		}},
		Silence: &hop.Silence{Signal: diag.SigControlPlaneUnreachable, Side: "",
			Request: "the operator's request to the API"},
		Steps: []hop.Step{
			{
				Name: hop.StepHealthz, From: hop.Operator, Timeout: 4 * time.Second,
				Needs: hop.Needs{Paths: []string{profile.PathHealthz}}, Policy: hop.Policy{BothFamilies: true},
				Excused: func(c *hop.Case, f *diag.Fact) bool {
					return reading.ReachedServer(f) && accepted(c.Fact(id, hop.StepAuth))
				},
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					req := e.Request("GET", profile.PathHealthz, nil)
					req.Token = diag.Secret{}
					return req
				},
			},
			{
				Name: hop.StepAuth, From: hop.Operator, Timeout: 4 * time.Second,
				Needs:   hop.Needs{Token: true, Paths: []string{profile.PathTrust}},
				Excused: func(_ *hop.Case, f *diag.Fact) bool { return reading.NoTrustPage(f) },
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return e.Request("GET", profile.PathTrust, nil,
						"trust.signing_ca", "trust.ingress_ca", "trust.ingress_trusts_signing_ca", "trust.node_api_server",
						"trust.terminal_server")
				},
			},
		},
		Judge: judgeControlPlane,
		Counter: func(e *hop.Env, _ *hop.Case, failing *diag.Fact) []hop.Counter {
			p := e.Profile
			if failing.ID != hop.FactID(id, hop.StepHealthz) { // no token is shown to another name
				return nil
			}
			return world.OtherRoute(e, failing, p.APIResolveAddress, p.TerminalBase, p.TerminalResolveAddress,
				profile.PathTerminalHealthz)
		},
		Pass: func(c *hop.Case) string {
			h, a := c.Fact(id, hop.StepHealthz), c.Fact(id, hop.StepAuth)
			if h == nil {
				h = a // this platform has no /healthz
			}
			text := fmt.Sprintf("%s answers %d", reading.Where(h), reading.Status(h))
			switch {
			case a == nil && c.Planned(id).Left[hop.StepAuth] != hop.SkipNoToken:
				return text + "; nothing was read with the token: " + c.Planned(id).Left[hop.StepAuth]
			case a == nil:
				return text + "; no token, so nothing is read through it"
			case reading.NoTrustPage(a):
				return text + fmt.Sprintf("; there is no trust page (HTTP %d), so the token is not verified", reading.Status(a))
			case !accepted(a):
				return text + fmt.Sprintf(
					"; the trust page answers HTTP %d without a field of the API, so the token is not verified", reading.Status(a))
			}
			return text + ", the token is accepted"
		},
	}
}

func judgeControlPlane(c *hop.Case) []diag.Finding {
	if out := apiHealthRows.judge(judged{c: c, f: c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz)}); out != nil {
		return list(out)
	}
	return list(operatorTokenRows.judge(judged{c: c, f: operatorsAuth(c)}))
}

func operatorsAuth(c *hop.Case) *diag.Fact { return c.Fact(diag.HopControlPlaneAccess, hop.StepAuth) }

// apiHealthRows are about the health page, which is asked for without a token.
var apiHealthRows = rows{
	{when: func(j judged) bool { return j.f.Failure == diag.HTTPEdgeAuth },
		then: undecided("the edge at %s asks for a login in place of the API: nothing of the API was seen", where)},
	{when: func(j judged) bool { return worksWithoutPage(j) && world.DeniesAccess(j.f) }},
	{when: worksWithoutPage,
		then: warns("", "the health page at %s fails (%s), but the API accepts this operator's token; if the platform has "+
			"another health page, or none, set mapping.paths.healthz to it, or to \"-\"", where, saw)},
	{when: func(j judged) bool { return world.DeniesAccess(j.f) && reading.ForeignPage(j.f) },
		then: undecided("%s in place of the API's health page: nothing of the API was seen", pageFrom)},
	{
		when: func(j judged) bool {
			return world.DeniesAccess(j.f) && operatorsAuth(j.c) != nil && world.OperatorGetsSame(j.c, j.f)
		},
		then: undecided("the API at %s, or what is in front of it, answers with and without the operator's token as it "+
			"answers its health page: %s; nothing of the API was seen", where, saw),
		lack: diag.LackPlatform,
	},
	{when: func(j judged) bool { return world.DeniesAccess(j.f) },
		then: undecided("the API at %s answers, but its health page %s, so its health was not measured; set "+
			"mapping.paths.healthz to a public page, or to \"-\"", where, closedPage)},
	{when: func(j judged) bool { return j.f.Passed() && reading.Good(j.f) }},

	// It does not answer the operator, or answers wrongly. The answer locates the fault: HTTP shows that an edge was
	// reached, and an answer to another vantage shows that the platform is up. The node's path says nothing about a
	// certificate that the operator does not trust.
	{when: func(j judged) bool { return j.f.Phase == "tls" && j.status() == 0 && reading.Distrusts(j.f) },
		then: noAPI},
	{when: func(j judged) bool { return reading.IsMTLS(j.f.Failure) || j.f.Failure == diag.MTLSIngress400 },
		then: fails(diag.SigControlPlaneUnreachable, "the listener at %s wants a client certificate, and an operator's "+
			"request has none: a node ingress in place of the API (api_base), or an edge for other clients: %s", where, saw)},
	{when: func(j judged) bool { return world.ResolverAtFault(j.c, j.f) },
		then: noAPI, side: diag.SideOperator},
	{when: func(j judged) bool { return reading.HasGap(j.f) }, then: noAPI}, // the API answers; see JudgeLostAnswer
	// a slow server, or a path that drops large packets
	{
		when: func(j judged) bool {
			return reading.GotNoAnswer(j.f) && reading.FullyAcknowledged(j.f) && !reading.InPhase(j.f, "http")
		},
		then: noAPI, culprit: world.CulpritControlPlane,
	},
	{when: func(j judged) bool { return j.status() >= 500 && reading.EdgeWords(j.f) != "" },
		then: fails(diag.SigControlPlaneUnreachable, "an edge's page, not the API's, comes from %s: %s; the edge answers, "+
			"and what is behind it does not", where, saw),
		side: diag.SidePlatform, culprit: world.CulpritControlPlane, also: claimDown},
	// name, path and certificate are sound
	{when: func(j judged) bool { return j.status() != 0 },
		then: fails(diag.SigControlPlaneUnreachable, "the API at %s does not work: its edge, or the API itself, answers %s",
			where, saw),
		side: diag.SidePlatform, culprit: world.CulpritControlPlane, also: claimDown},
	{when: func(j judged) bool { return reading.InPhase(j.f, "http") || world.NodeHears(j.c) == world.SilentSide },
		then: noAPI, side: diag.SidePlatform, culprit: world.CulpritControlPlane, also: claimDown},
	{when: func(j judged) bool { return world.NodeHears(j.c) == world.AnsweredSide },
		then: noAPI, culprit: world.CulpritOperatorWay,
		also: func(j judged, out *diag.Finding) {
			if world.Claim(j.c, out, world.ClaimOperatorWay) {
				out.Side = diag.SideOperator
			} else { // the API's listener is not the one that answers the node
				world.Claim(j.c, out, world.ClaimPlatformLives)
			}
		}},
	{then: noAPI, culprit: world.CulpritControlPlane},
}

// operatorTokenRows are about a request with the operator's token.
var operatorTokenRows = rows{
	{when: func(j judged) bool { return j.status() == 403 && reading.ForeignPage(j.f) },
		then: undecided("%s in place of the API's: whether the API takes the operator's token was not seen", pageFrom)},
	// a 401 with a page, too
	{when: func(j judged) bool { return j.f.Failure == diag.HTTPEdgeAuth },
		then: undecided("the edge at %s asks for a login in place of the API", where)},
	{when: func(j judged) bool { return j.refused() && world.PassedOnce(j.c, j.f) }, side: diag.SidePlatform,
		then: fails(diag.SigControlPlaneUnreachable, "the API refuses the operator's token only at times: %s", saw)},
	{when: func(j judged) bool { return j.refused() && world.TokenRead(j.f) },
		then: fails(diag.SigOperatorAuthFailed, "the API refuses the operator's token: %s", saw)},
	{when: judged.refused,
		then: fails(diag.SigOperatorAuthFailed, "the API refuses the operator's token: %s; whether the token reached it is "+
			"not known: an edge may have removed it, or answered itself", saw)},
	{when: func(j judged) bool { return j.f.Passed() || reading.NoTrustPage(j.f) }},
	{side: diag.SidePlatform,
		then: fails(diag.SigControlPlaneUnreachable, "the operator's request with the token gets %s from the API: %s%s", gets,
			saw, butHealthy)},
}

// worksWithoutPage reports whether the API works, and its health page does not.
func worksWithoutPage(j judged) bool {
	return !reading.Good(j.f) && reading.ReachedServer(j.f) && accepted(operatorsAuth(j.c))
}

var noAPI = fails(diag.SigControlPlaneUnreachable, "the operator gets %s from the API at %s: %s%s", gets, where, saw,
	presented)

func claimDown(j judged, out *diag.Finding) {
	if world.NodeHears(j.c) == world.SilentSide {
		world.Claim(j.c, out, world.ClaimPlatformDown)
	}
}

func butHealthy(j judged) string {
	if j.c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz) == nil {
		return ""
	}
	return "; its health page answers"
}

// accepted reports whether the API itself answered the operator's token: a public page at this address has none of the
// requested fields.
func accepted(f *diag.Fact) bool {
	if !f.Passed() || !reading.Good(f) {
		return false
	}
	return len(f.HTTP.Fields) > 0 || strings.Contains(f.HTTP.ContentType, "json")
}
