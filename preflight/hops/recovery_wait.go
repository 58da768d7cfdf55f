package hops

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// judgeTaskWait judges the answer to the real task wait.
func judgeTaskWait(c *hop.Case) *diag.Finding {
	return taskWaitRows.judge(judged{c: c, f: c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)})
}

var taskWaitRows = rows{
	{when: func(j judged) bool { return reading.Admitted(j.f) }},
	{
		when: func(j judged) bool { return reading.Redirects(j.f) },
		then: func(j judged) diag.Finding { return reading.Redirected(j.f) },
	},
	{
		when: func(j judged) bool { return j.f.Passed() },
		then: func(j judged) diag.Finding { return noNodeAPI(j, "a web page") },
		side: diag.SidePlatform,
	},
	{
		when: func(j judged) bool { return j.f.Failure == diag.HTTPEdgeAuth },
		then: func(j judged) diag.Finding { return noNodeAPI(j, "a login, which no agent can pass,") },
		side: diag.SidePlatform,
	},
	{ // also with 401 or 403: nothing behind the limiter has seen the certificate
		when: func(j judged) bool { return j.f.Throttled() },
		then: func(j judged) diag.Finding { return reading.Throttled(j.f, "this node's task wait") },
	},
	{
		when: func(j judged) bool { return world.EdgeWithholds(j.c, j.f) },
		then: func(j judged) diag.Finding {
			return reading.HeldBack(diag.SigAuthFailed, j.f, diag.ReasonControlPlaneUnreachable)
		},
	},
	{
		when: func(j judged) bool { return j.denied() && world.DeniesNode(j.c, j.f) },
		then: func(j judged) diag.Finding {
			out := reading.Fail(diag.SigAuthFailed, j.f, "the platform denies this node: HTTP %d %s", j.status(),
				reading.Code(j.f))
			out.Reason, _ = diag.DenialReason(reading.Code(j.f))
			out.Culprit = reading.CulpritDenied(j.c, j.f)
			return out
		},
	},
	{ // the node is let in elsewhere
		when: judged.denied,
		then: func(j judged) diag.Finding {
			return reading.Fail(diag.SigAPIUnreachable, j.f, "%s, or what is in front of it, refuses the node's task wait: "+
				"HTTP %d %s; %s, so whether the platform denies this node is not known", reading.Where(j.f), j.status(),
				reading.Code(j.f), world.LetIn(j.c, j.f))
		},
		side: diag.SidePlatform, reason: diag.ReasonControlPlaneUnreachable,
	},
	{
		when: func(j judged) bool {
			return world.OperatorGetsSame(j.c, j.f) && !world.ForeignIssuer(j.c) && !world.BadOwnCert(j.c)
		},
		then: func(j judged) diag.Finding {
			return reading.Fail(diag.SigAPIUnreachable, j.f, "%s answers the node's task wait as the API answers the "+
				"operator, who shows no certificate: a limit or a filter of requests, and not the node's certificate: %s",
				reading.Where(j.f), reading.Saw(j.f))
		},
		side: diag.SideEdge, culprit: world.CulpritControlPlane,
	},
	{
		when: func(j judged) bool {
			return reading.RefusesCert(j.f) && (!reading.Vague(j.f) || world.ForeignIssuer(j.c) || world.BadOwnCert(j.c))
		},
		then: certRefused,
	},
	{
		when: func(j judged) bool { return refusedByAny(j) && world.LetIn(j.c, j.f) != "" },
		then: func(j judged) diag.Finding {
			return reading.Fail(diag.SigAPIUnreachable, j.f, "HTTP %d comes from the ingress at %s, or from what is in front "+
				"of it: the answer has %s, and %s, so nothing shows that the platform denies this node", j.status(),
				reading.Where(j.f), world.OfNoPlatform(j.f), world.LetIn(j.c, j.f))
		},
		side: diag.SideEdge,
	},
	{
		when: refusedByAny,
		then: func(j judged) diag.Finding {
			out := reading.Fail(diag.SigAuthFailed, j.f, "HTTP %d comes from the ingress at %s, or from what is in front of "+
				"it: the answer has %s, so whether the platform denies this node is not known%s", j.status(), reading.Where(j.f),
				world.OfNoPlatform(j.f), world.Issued(j.c, j.f))
			out.Culprit = "node file " + j.f.Request.Cert
			return out
		},
		side: diag.SidePlatform, reason: diag.ReasonIdentityRejectedRecoverable,
	},
	{ // a fault of the bundle, which hop 6 reports; or of one of several servers, which it did not meet
		when: func(j judged) bool { return reading.Distrusts(j.f) && reading.InPhase(j.f, "tls") },
		then: func(j judged) diag.Finding {
			return reading.Fail(diag.SigAPITLSFailed, j.f, "%s: %s%s", reading.Distrust(j.f), reading.Saw(j.f),
				world.Presented(j.f))
		},
	},
	{
		when: func(j judged) bool { return reading.Distrusts(j.f) },
		then: func(j judged) diag.Finding {
			return reading.Fail(diag.SigAPITLSFailed, j.f, "no task wait was sent: %s could not be verified with the CA "+
				"bundle: %s", reading.Where(j.f), reading.Saw(j.f))
		},
	},
	{
		when: func(j judged) bool {
			return j.status() >= 500 || reading.Good(j.f) ||
				(j.status() == 0 && reading.InPhase(j.f, "dns", "tcp", "tls", "http"))
		},
		then: waitUnanswered,
	},
	{then: func(j judged) diag.Finding {
		return reading.Undecided(j.f, "the task wait shows neither acceptance nor refusal: %s%s", reading.Saw(j.f),
			world.Signer(j.f))
	}},
}

// noNodeAPI is the finding of a task wait that something else than the node API answers.
func noNodeAPI(j judged, what string) diag.Finding {
	return reading.Fail(diag.SigAPIUnreachable, j.f, "%s answers the node's task wait with %s instead of the node API's "+
		"response: %s", reading.Where(j.f), what, reading.Saw(j.f))
}

// refusedByAny reports whether HTTP refuses the node's request or its certificate, the platform or another server.
func refusedByAny(j judged) bool {
	return j.refused() || (j.status() == 400 && reading.RefusesCert(j.f))
}

// certRefused is the finding of an ingress that refuses the node's certificate. If the terminal gateway takes it, the
// ingress is at fault.
func certRefused(j judged) diag.Finding {
	out := reading.Fail(diag.SigAuthFailed, j.f, "the ingress refuses the node's certificate: %s%s", reading.Saw(j.f),
		world.Issued(j.c, j.f))
	out.Reason, out.Culprit = world.RefusalReason(j.c, j.f), "node file "+j.f.Request.Cert
	if world.GatewayAccepts(j.c) && !world.BadOwnCert(j.c) {
		out.Side = diag.SidePlatform
		out.Text += "; the terminal gateway accepts the same certificate: it is revoked here alone, or a CA, a revocation " +
			"list or the clock of the ingress is at fault"
	}
	return out
}

// waitUnanswered is the finding of a task wait that got no answer of the API. The platform is at fault if its listener
// answers other requests, or completed a verified handshake with this one.
func waitUnanswered(j judged) diag.Finding {
	out := reading.Fail(diag.SigAPIUnreachable, j.f, "the node's task wait gets %s from %s: %s", world.Gets(j.f),
		reading.Where(j.f), reading.Saw(j.f))
	verified := j.status() == 0 && j.f.Failure != diag.TCPReset && j.f.TLS != nil && j.f.TLS.Verified
	if world.Claim(j.c, &out, world.ClaimBehindListener) || j.status() >= 500 || verified {
		out.Side = diag.SidePlatform
	}
	hz := j.c.Fact(diag.HopControlPlaneAccess, hop.StepHealthz)
	if hz != nil && !hz.Passed() && reading.InPhase(hz, "http") {
		out.Culprit = world.CulpritControlPlane
	}
	return out
}
