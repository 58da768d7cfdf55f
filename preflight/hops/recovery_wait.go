package hops

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// judgeTaskWait judges the answer to the real task wait.
func judgeTaskWait(c *hop.Case) *diag.Finding {
	return taskWaitRows.judge(judged{c: c, f: taskWait(c)})
}

func taskWait(c *hop.Case) *diag.Fact { return c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait) }

var taskWaitRows = rows{
	{when: func(j judged) bool { return reading.Admitted(j.f) }},
	{when: func(j judged) bool { return reading.Redirects(j.f) },
		then: func(j judged) diag.Finding { return reading.Redirected(j.f) }},
	{when: func(j judged) bool { return j.f.Passed() || j.f.Failure == diag.HTTPEdgeAuth }, side: diag.SidePlatform,
		then: fails(diag.SigAPIUnreachable, "%s answers the node's task wait with %s instead of the node API's response: %s",
			where, pageOrLogin, saw)},
	// also with 401 or 403: nothing behind the limiter has seen the certificate
	{when: func(j judged) bool { return j.f.Throttled() },
		then: func(j judged) diag.Finding { return reading.Throttled(j.f, "this node's task wait") }},
	{when: func(j judged) bool { return world.EdgeWithholds(j.c, j.f) },
		then: func(j judged) diag.Finding {
			return reading.HeldBack(diag.SigAuthFailed, j.f, diag.ReasonControlPlaneUnreachable)
		}},
	{when: func(j judged) bool { return j.denied() && !world.DeniesNode(j.c, j.f) },
		then: fails(diag.SigAPIUnreachable, "%s, or what is in front of it, refuses the node's task wait: HTTP %s %s; %s, "+
			"so whether the platform denies this node is not known", where, httpStatus, code, letIn),
		side: diag.SidePlatform, reason: diag.ReasonControlPlaneUnreachable},
	{when: judged.denied,
		then: fails(diag.SigAuthFailed, "the platform denies this node: HTTP %s %s", httpStatus, code),
		also: func(j judged, out *diag.Finding) {
			out.Reason, _ = diag.DenialReason(reading.Code(j.f))
			out.Culprit = reading.CulpritDenied(j.c, j.f)
		}},
	{
		when: func(j judged) bool {
			return world.OperatorGetsSame(j.c, j.f) && !world.ForeignIssuer(j.c) && !world.BadOwnCert(j.c)
		},
		then: fails(diag.SigAPIUnreachable, "%s answers the node's task wait as the API answers the operator, who shows no "+
			"certificate: a limit or a filter of requests, and not the node's certificate: %s", where, saw),
		side: diag.SideEdge, culprit: world.CulpritControlPlane,
	},
	{
		when: func(j judged) bool {
			return reading.RefusesCert(j.f) && (!reading.Vague(j.f) || world.ForeignIssuer(j.c) || world.BadOwnCert(j.c))
		},
		then: fails(diag.SigAuthFailed, "the ingress refuses the node's certificate: %s%s", saw, issued),
		also: func(j judged, out *diag.Finding) {
			out.Reason, out.Culprit = world.RefusalReason(j.c, j.f), culpritCert(j)
			if world.GatewayAccepts(j.c) && !world.BadOwnCert(j.c) {
				out.Side = diag.SidePlatform
				out.Text += "; the terminal gateway accepts the same certificate: it is revoked here alone, or a CA, a " +
					"revocation list or the clock of the ingress is at fault"
			}
		},
	},
	{when: func(j judged) bool { return refusedByAny(j) && world.LetIn(j.c, j.f) != "" }, side: diag.SideEdge,
		then: fails(diag.SigAPIUnreachable, "HTTP %s comes from the ingress at %s, or from what is in front of it: the "+
			"answer has %s, and %s, so nothing shows that the platform denies this node", httpStatus, where, noPlatform, letIn)},
	{when: refusedByAny,
		then: fails(diag.SigAuthFailed, "HTTP %s comes from the ingress at %s, or from what is in front of it: the answer "+
			"has %s, so whether the platform denies this node is not known%s", httpStatus, where, noPlatform, issued),
		side: diag.SidePlatform, reason: diag.ReasonIdentityRejectedRecoverable,
		also: func(j judged, out *diag.Finding) { out.Culprit = culpritCert(j) }},
	// a fault of the bundle, which hop 6 reports; or of one of several servers, which it did not meet
	{when: func(j judged) bool { return reading.Distrusts(j.f) && reading.InPhase(j.f, "tls") },
		then: fails(diag.SigAPITLSFailed, "%s: %s%s", distrust, saw, presented)},
	{when: func(j judged) bool { return reading.Distrusts(j.f) },
		then: fails(diag.SigAPITLSFailed, "no task wait was sent: %s could not be verified with the CA bundle: %s", where,
			saw)},
	{
		when: func(j judged) bool {
			return j.status() >= 500 || reading.Good(j.f) ||
				(j.status() == 0 && reading.InPhase(j.f, "dns", "tcp", "tls", "http"))
		},
		then: fails(diag.SigAPIUnreachable, "the node's task wait gets %s from %s: %s", gets, where, saw),
		also: locateUnanswered,
	},
	{then: undecided("the task wait shows neither acceptance nor refusal: %s%s", saw, signer)},
}

func pageOrLogin(j judged) string {
	if j.f.Failure == diag.HTTPEdgeAuth {
		return "a login, which no agent can pass,"
	}
	return "a web page"
}

// refusedByAny reports whether HTTP refuses the request or its certificate, for the platform or not.
func refusedByAny(j judged) bool {
	return j.refused() || (j.status() == 400 && reading.RefusesCert(j.f))
}

// locateUnanswered adds whose fault an unanswered task wait is: the platform's if its listener answers other requests,
// or completed a verified handshake with this one.
func locateUnanswered(j judged, out *diag.Finding) {
	verified := j.status() == 0 && j.f.Failure != diag.TCPReset && j.f.TLS != nil && j.f.TLS.Verified
	if world.Claim(j.c, out, world.ClaimBehindListener) || j.status() >= 500 || verified {
		out.Side = diag.SidePlatform
	}
	hz := j.c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz)
	if hz != nil && !hz.Passed() && reading.InPhase(hz, "http") {
		out.Culprit = world.CulpritControlPlane
	}
}
