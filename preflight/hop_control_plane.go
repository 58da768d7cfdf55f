package preflight

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// controlPlaneAccess: can the operator reach the API, and is the operator let in?
func controlPlaneAccess() Hop {
	id := diag.HopControlPlaneAccess
	return Hop{
		ID: id, Budget: 8 * time.Second,
		Silence: &Silence{diag.SigControlPlaneUnreachable, "", "the operator's request to the API"},
		NotOfNode: func(c *Case) bool { // only this operator is known to be cut off
			wait := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
			return admitted(wait) || (wait == nil && c.Fact(diag.HopNodeRuntimeAPI, stepReach) == nil)
		},
		Steps: []Step{
			{
				Name: stepHealthz, From: Operator, Timeout: 4 * time.Second, BothFamilies: true,
				Paths: []string{profile.PathHealthz},
				Excused: func(c *Case, f *diag.Fact) bool {
					return reachedServer(f) && accepted(c.Fact(id, stepAuth))
				},
				Ask: func(e *Env, _ *Case) diag.Request {
					req := e.api("GET", profile.PathHealthz, nil)
					req.Token = diag.Secret{}
					return req
				},
			},
			{
				Name: stepAuth, From: Operator, Token: true, Timeout: 4 * time.Second, Paths: []string{profile.PathTrust},
				Excused: func(_ *Case, f *diag.Fact) bool { return noTrustPage(f) },
				Ask: func(e *Env, _ *Case) diag.Request {
					return e.api("GET", profile.PathTrust, nil,
						"trust.signing_ca", "trust.ingress_ca", "trust.ingress_trusts_signing_ca", "trust.node_api_server",
						"trust.terminal_server")
				},
			},
		},
		Judge: judgeControlPlane,
		Counter: func(e *Env, _ *Case, failing *diag.Fact) []Counter {
			p := e.Profile
			if failing.ID != factID(id, stepHealthz) { // no token is shown to another name
				return nil
			}
			return otherRoute(e, failing, p.APIResolveAddress, p.TerminalBase, p.TerminalResolveAddress,
				profile.PathTerminalHealthz)
		},
		Pass: func(c *Case) string {
			h, a := c.Fact(id, stepHealthz), c.Fact(id, stepAuth)
			if h == nil {
				h = a // this platform has no /healthz
			}
			text := fmt.Sprintf("%s answers %d", where(h), status(h))
			switch {
			case a == nil && c.planned(id).Left[stepAuth] != skipNoToken:
				return text + "; nothing was read with the token: " + c.planned(id).Left[stepAuth]
			case a == nil:
				return text + "; no token, so nothing is read through it"
			case noTrustPage(a):
				return text + fmt.Sprintf("; there is no trust page (HTTP %d), so the token is not verified",
					status(a))
			case !accepted(a):
				return text + fmt.Sprintf(
					"; the trust page answers HTTP %d without a field of the API, so the token is not verified", status(a))
			}
			return text + ", the token is accepted"
		},
	}
}

func judgeControlPlane(c *Case) []diag.Finding {
	h, a := c.Fact(diag.HopControlPlaneAccess, stepHealthz), c.Fact(diag.HopControlPlaneAccess, stepAuth)
	switch {
	case h != nil && h.Failure == diag.HTTPEdgeAuth:
		return []diag.Finding{undecided(h, "the edge at %s asks for a login in place of the API: nothing of the API was seen",
			where(h))}
	case h != nil && !good(h) && reachedServer(h) && accepted(a): // the API works, its health page does not
		if deniesAccess(h) {
			return nil
		}
		return []diag.Finding{warn("", h,
			"the health page at %s fails (%s), but the API accepts this operator's token; "+
				"if the platform has another health page, or none, set mapping.paths.healthz to it, or to \"-\"", where(h), saw(h))}
	case deniesAccess(h) && foreignPage(h):
		return []diag.Finding{undecided(h, "%s in place of the API's health page: nothing of the API was seen", pageFrom(h))}
	case deniesAccess(h) && a != nil && operatorGetsSame(c, h):
		out := undecided(h, "the API at %s, or what is in front of it, answers with and without the operator's token as it "+
			"answers its health page: %s; nothing of the API was seen", where(h), saw(h))
		out.Lack = diag.LackPlatform
		return []diag.Finding{out}
	case deniesAccess(h):
		return []diag.Finding{undecided(h,
			"the API at %s answers, but its health page %s, so its health was not measured; "+
				"set mapping.paths.healthz to a public page, or to \"-\"", where(h), describeClosedHealthPage(h))}
	case h != nil && (!h.Passed() || !good(h)):
		return []diag.Finding{noAPI(c, h)}
	case a == nil:
		return nil
	case status(a) == 403 && foreignPage(a):
		return []diag.Finding{undecided(a, "%s in place of the API's: whether the API takes the operator's token was not "+
			"seen", pageFrom(a))}
	case a.Failure == diag.HTTPEdgeAuth: // a 401 with a page, too
		return []diag.Finding{undecided(a, "the edge at %s asks for a login in place of the API", where(a))}
	case (status(a) == 401 || status(a) == 403) && passedOnce(c, a):
		out := fail(diag.SigControlPlaneUnreachable, a, "the API refuses the operator's token only at times: %s", saw(a))
		out.Side = diag.SidePlatform
		return []diag.Finding{out}
	case status(a) == 401 || status(a) == 403:
		out := fail(diag.SigOperatorAuthFailed, a, "the API refuses the operator's token: %s", saw(a))
		if !tokenRead(a) {
			out.Text += "; whether the token reached it is not known: an edge may have removed it, or answered itself"
		}
		return []diag.Finding{out}
	case a.Passed(), noTrustPage(a):
		return nil
	}
	out := fail(diag.SigControlPlaneUnreachable, a, "the operator's request with the token gets %s from the API: %s",
		gets(a), saw(a))
	if h != nil {
		out.Text += "; its health page answers"
	}
	out.Side = diag.SidePlatform
	return []diag.Finding{out}
}

// accepted reports whether the API itself answered the operator's token: a public page at this address has none of the
// requested fields.
func accepted(f *diag.Fact) bool {
	if !f.Passed() || !good(f) {
		return false
	}
	return len(f.HTTP.Fields) > 0 || strings.Contains(f.HTTP.ContentType, "json")
}

// noAPI is the finding for an API that does not answer the operator, or answers wrongly. The answer locates the
// fault: HTTP shows that an edge was reached, and an answer to another vantage shows that the platform is up.
func noAPI(c *Case, f *diag.Fact) diag.Finding {
	out := fail(diag.SigControlPlaneUnreachable, f, "the operator gets %s from the API at %s: %s%s", gets(f), where(f),
		saw(f), presented(f))
	node := nodeHears(c)
	switch {
	// The operator does not trust the certificate: the node's path says nothing about that.
	case f.Phase == "tls" && status(f) == 0 && distrusts(f):
	case isMTLS(f.Failure), f.Failure == diag.MTLSIngress400:
		out.Text = fmt.Sprintf("the listener at %s wants a client certificate, and an operator's request has none: a node "+
			"ingress in place of the API (api_base), or an edge for other clients: %s", where(f), saw(f))
	case resolverAtFault(c, f):
		out.Side = diag.SideOperator
	case hasGap(f): // the API answers; see judgeLostAnswer
	case gotNoAnswer(f) && fullyAcknowledged(f) && !inPhase(f, "http"):
		// a slow server, or a path that drops large packets
		out.Culprit = culpritControlPlane
	case status(f) != 0 || inPhase(f, "http"): // name, path and certificate are sound
		out.Side, out.Culprit = diag.SidePlatform, culpritControlPlane
		if status(f) != 0 {
			out.Text = fmt.Sprintf("the API at %s does not work: its edge, or the API itself, answers %s", where(f), saw(f))
		}
		if node == silentSide {
			claim(c, &out, claimPlatformDown)
		}
	case node == silentSide:
		out.Side, out.Culprit = diag.SidePlatform, culpritControlPlane
		claim(c, &out, claimPlatformDown)
	case node == answeredSide:
		out.Culprit = culpritOperatorWay
		if claim(c, &out, claimOperatorWay) {
			out.Side = diag.SideOperator
		} else { // the API's listener is not the one that answers the node
			claim(c, &out, claimPlatformLives)
		}
	default:
		out.Culprit = culpritControlPlane
	}
	return out
}
