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
		Silence: &hop.Silence{Signal: diag.SigControlPlaneUnreachable, Side: "",
			Request: "the operator's request to the API"},
		NotOfNode: func(c *hop.Case) bool { // only this operator is known to be cut off
			wait := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
			return reading.Admitted(wait) || (wait == nil && c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach) == nil)
		},
		Steps: []hop.Step{
			{
				Name: hop.StepHealthz, From: hop.Operator, Timeout: 4 * time.Second, BothFamilies: true,
				Paths: []string{profile.PathHealthz},
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
				Name: hop.StepAuth, From: hop.Operator, Token: true, Timeout: 4 * time.Second, Paths: []string{profile.PathTrust},
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
	h, a := c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz), c.Fact(diag.HopControlPlaneAccess, hop.StepAuth)
	switch {
	case h != nil && h.Failure == diag.HTTPEdgeAuth:
		return []diag.Finding{reading.Undecided(h,
			"the edge at %s asks for a login in place of the API: nothing of the API was seen", reading.Where(h))}
	// the API works, its health page does not
	case h != nil && !reading.Good(h) && reading.ReachedServer(h) && accepted(a):
		if world.DeniesAccess(h) {
			return nil
		}
		return []diag.Finding{reading.Warn("", h,
			"the health page at %s fails (%s), but the API accepts this operator's token; "+
				"if the platform has another health page, or none, set mapping.paths.healthz to it, or to \"-\"",
			reading.Where(h), reading.Saw(h))}
	case world.DeniesAccess(h) && reading.ForeignPage(h):
		return []diag.Finding{reading.Undecided(h, "%s in place of the API's health page: nothing of the API was seen",
			world.PageFrom(h))}
	case world.DeniesAccess(h) && a != nil && world.OperatorGetsSame(c, h):
		out := reading.Undecided(h,
			"the API at %s, or what is in front of it, answers with and without the operator's token as it "+
				"answers its health page: %s; nothing of the API was seen", reading.Where(h), reading.Saw(h))
		out.Lack = diag.LackPlatform
		return []diag.Finding{out}
	case world.DeniesAccess(h):
		return []diag.Finding{reading.Undecided(h,
			"the API at %s answers, but its health page %s, so its health was not measured; "+
				"set mapping.paths.healthz to a public page, or to \"-\"", reading.Where(h), world.DescribeClosedHealthPage(h))}
	case h != nil && (!h.Passed() || !reading.Good(h)):
		return []diag.Finding{noAPI(c, h)}
	case a == nil:
		return nil
	case reading.Status(a) == 403 && reading.ForeignPage(a):
		return []diag.Finding{reading.Undecided(a,
			"%s in place of the API's: whether the API takes the operator's token was not "+
				"seen", world.PageFrom(a))}
	case a.Failure == diag.HTTPEdgeAuth: // a 401 with a page, too
		return []diag.Finding{reading.Undecided(a, "the edge at %s asks for a login in place of the API", reading.Where(a))}
	case (reading.Status(a) == 401 || reading.Status(a) == 403) && world.PassedOnce(c, a):
		out := reading.Fail(diag.SigControlPlaneUnreachable, a, "the API refuses the operator's token only at times: %s",
			reading.Saw(a))
		out.Side = diag.SidePlatform
		return []diag.Finding{out}
	case reading.Status(a) == 401 || reading.Status(a) == 403:
		out := reading.Fail(diag.SigOperatorAuthFailed, a, "the API refuses the operator's token: %s", reading.Saw(a))
		if !world.TokenRead(a) {
			out.Text += "; whether the token reached it is not known: an edge may have removed it, or answered itself"
		}
		return []diag.Finding{out}
	case a.Passed(), reading.NoTrustPage(a):
		return nil
	}
	out := reading.Fail(diag.SigControlPlaneUnreachable, a,
		"the operator's request with the token gets %s from the API: %s", world.Gets(a), reading.Saw(a))
	if h != nil {
		out.Text += "; its health page answers"
	}
	out.Side = diag.SidePlatform
	return []diag.Finding{out}
}

// accepted reports whether the API itself answered the operator's token: a public page at this address has none of the
// requested fields.
func accepted(f *diag.Fact) bool {
	if !f.Passed() || !reading.Good(f) {
		return false
	}
	return len(f.HTTP.Fields) > 0 || strings.Contains(f.HTTP.ContentType, "json")
}

// noAPI is the finding for an API that does not answer the operator, or answers wrongly. The answer locates the
// fault: HTTP shows that an edge was reached, and an answer to another vantage shows that the platform is up.
func noAPI(c *hop.Case, f *diag.Fact) diag.Finding {
	out := reading.Fail(diag.SigControlPlaneUnreachable, f, "the operator gets %s from the API at %s: %s%s",
		world.Gets(f), reading.Where(f), reading.Saw(f), world.Presented(f))
	node := world.NodeHears(c)
	switch {
	// The operator does not trust the certificate: the node's path says nothing about that.
	case f.Phase == "tls" && reading.Status(f) == 0 && reading.Distrusts(f):
	case reading.IsMTLS(f.Failure), f.Failure == diag.MTLSIngress400:
		out.Text = fmt.Sprintf("the listener at %s wants a client certificate, and an operator's request has none: a node "+
			"ingress in place of the API (api_base), or an edge for other clients: %s", reading.Where(f), reading.Saw(f))
	case world.ResolverAtFault(c, f):
		out.Side = diag.SideOperator
	case reading.HasGap(f): // the API answers; see JudgeLostAnswer
	case reading.GotNoAnswer(f) && reading.FullyAcknowledged(f) && !reading.InPhase(f, "http"):
		// a slow server, or a path that drops large packets
		out.Culprit = world.CulpritControlPlane
	case reading.Status(f) != 0 || reading.InPhase(f, "http"): // name, path and certificate are sound
		out.Side, out.Culprit = diag.SidePlatform, world.CulpritControlPlane
		if reading.Status(f) != 0 {
			out.Text = fmt.Sprintf("the API at %s does not work: its edge, or the API itself, answers %s", reading.Where(f),
				reading.Saw(f))
		}
		if node == world.SilentSide {
			world.Claim(c, &out, world.ClaimPlatformDown)
		}
	case node == world.SilentSide:
		out.Side, out.Culprit = diag.SidePlatform, world.CulpritControlPlane
		world.Claim(c, &out, world.ClaimPlatformDown)
	case node == world.AnsweredSide:
		out.Culprit = world.CulpritOperatorWay
		if world.Claim(c, &out, world.ClaimOperatorWay) {
			out.Side = diag.SideOperator
		} else { // the API's listener is not the one that answers the node
			world.Claim(c, &out, world.ClaimPlatformLives)
		}
	default:
		out.Culprit = world.CulpritControlPlane
	}
	return out
}
