package preflight

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// Longer than 300 lines: a hop's requests and its judge are in one file.

const (
	stepClassifier = "classifier"

	// recordLimit is how many of the record's newest entries are read, in addition to the pinned ones: a day without a
	// platform, since repeats are folded.
	recordLimit = 64
)

// nodeRecoveryStatus: which identity and which endpoints does the node have, and does the platform accept it? The
// proof is a real task wait by mTLS that claims nothing.
func nodeRecoveryStatus() Hop {
	id := diag.HopNodeRecoveryStatus
	needSSH := []diag.HopID{diag.HopNodeOpsAccess}
	return Hop{
		ID: id, Behind: platformReads(), Budget: 9 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI},
		Reads:       []diag.HopID{diag.HopControlPlaneAccess, diag.HopNodeTerminalReachability},
		Clears:      diag.AboutIdentity, AgentCame: agentAnswered,
		Steps: []Step{
			{
				Name: stepIdentity, From: Node, Timeout: 3 * time.Second, Needs: needSSH, Excused: datedAndAdmitted,
				Ask: func(e *Env, _ *Case) diag.Request {
					return diag.Request{Op: diag.OpCert, Cert: e.agentFile("cert.pem"), Key: e.agentFile("key.pem"),
						NodeID: e.Subject.NodeID}
				},
			},
			{Name: stepProfile, From: Node, Timeout: 3 * time.Second, Needs: needSSH, Ask: func(*Env, *Case) diag.Request {
				return diag.Request{Op: diag.OpEnv,
					Env: []string{"GPUAAS_API_URL", "GPUAAS_TERMINAL_API_URL", "GPUAAS_NODE_ID", envToken}}
			}},
			{
				Name: stepTaskWait, From: Node, Timeout: 5 * time.Second,
				Needs:     []diag.HopID{diag.HopNodeOpsAccess, diag.HopNodeRuntimeAPI},
				Overrules: &Overrule{Page: factID(diag.HopNodeRuntimeAPI, stepReach), Works: admitted},
				Paths:     []string{profile.PathTaskWait},
				NotThere: func(m profile.Mapping) string {
					if m.CanPeek() {
						return ""
					}
					return "this platform cannot be asked for a task without claiming it (mapping.peek: false)"
				},
				Once: func(req diag.Request) bool { return !strings.Contains(req.Target, "peek=1") }, // it may claim a task
				Ask: func(e *Env, _ *Case) diag.Request {
					return e.asAgent(diag.OpHTTP, "GPUAAS_API_URL", profile.PathTaskWait, nil)
				},
			},
			{
				Name: stepHostRecord, From: Node, Timeout: 3 * time.Second, Needs: needSSH, Optional: true,
				NotThere: keepsRecord, Ask: readRecord,
			},
			{Name: stepClassifier, From: Operator, Pure: true},
		},
		Counter: func(e *Env, _ *Case, failing *diag.Fact) []Counter {
			switch failing.Request.Op {
			case diag.OpCert:
				return hostView(failing)
			case diag.OpHTTP:
				other := otherListener(e, failing, e.Profile.NodeTerminalURL, profile.PathNodeTerminal,
					map[string]string{"session_id": unknownSessionID})
				return append(other, profileURL(e, failing, e.Profile.NodeRuntimeAPIURL, profile.PathTaskWait, nil)...)
			}
			return nil
		},
		Judge: func(c *Case) []diag.Finding {
			for _, judge := range []func(*Case) *diag.Finding{
				judgeCloned, judgeTrustDrift, judgeProfileDrift, judgeIdentity, judgeTaskWait, judgeRecord, judgeIssuerWord,
				judgeVersion,
			} {
				if f := judge(c); f != nil {
					return []diag.Finding{*f}
				}
			}
			return nil
		},
		Pass: func(c *Case) string {
			f := c.Fact(id, stepIdentity)
			if f == nil || f.Cert == nil {
				return "a task wait is accepted"
			}
			text := fmt.Sprintf("certificate until %s", f.Cert.Leaf.NotAfter.Format(time.DateTime))
			if w := c.Fact(id, stepTaskWait); w != nil {
				text += fmt.Sprintf(", task wait answers %d", status(w))
			}
			return text
		},
	}
}

// judgeCloned judges by the platform's word: only the platform sees two machines with one identity.
func judgeCloned(c *Case) *diag.Finding {
	f, wait := lastRead(c), c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	if code(wait) == "cloned" && deniesNode(c, wait) {
		f = wait
	} else if fieldOf(f, "node.recovery_reason") != string(diag.ReasonClonedIdentity) {
		return nil
	}
	out := fail(diag.SigIdentityCloned, f, "the platform sees more than one machine with the identity of %s",
		c.Subject.NodeID)
	out.Direct, out.Culprit = true, "identity of "+c.Subject.NodeID+" cloned"
	return &out
}

// judgeTrustDrift compares the CA that signs node certificates with those that the ingress trusts: by the platform's
// fingerprints, and by the names in the ingress's handshake.
func judgeTrustDrift(c *Case) *diag.Finding {
	trust := c.Fact(diag.HopControlPlaneAccess, stepAuth)
	signing, ingress := trustedCAs(c)
	if signing != "" && ingress != "" && signing != ingress {
		out := fail(diag.SigIngressCADrift, trust,
			"node certificates are signed by %.16s..., and the node ingress trusts %.16s...", signing, ingress)
		if wait := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait); wait != nil && refusesCert(wait) {
			out.Evidence = append(out.Evidence, wait.ID) // the refusal that follows
		}
		out.Direct = true
		return &out
	}
	wait, id := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait), c.Fact(diag.HopNodeRecoveryStatus, stepIdentity)
	if wait == nil || !refusesCert(wait) || id == nil || id.Cert == nil || !id.Passed() || foreignIssuer(c) {
		return nil
	}
	var out diag.Finding
	issuer := id.Cert.Leaf.Issuer
	switch {
	case unlisted(wait, issuer):
		out = fail(diag.SigIngressCADrift, wait,
			"the certificate is good and was signed by %s, and the node ingress trusts only %s", issuer,
			clip(wait.TLS.AcceptableCAs))
	case wait.Failure == diag.MTLSUnknownCA && gatewayAccepts(c):
		out = fail(diag.SigIngressCADrift, wait,
			"the terminal gateway takes the certificate, which was signed by %s, and the node "+
				"ingress does not know that CA: %s", issuer, saw(wait))
	case wait.Failure == diag.MTLSCertExpired && gatewayAccepts(c):
		out = fail(diag.SigIngressCADrift, wait,
			"the node ingress calls the node's certificate expired, which is valid until %s by the node's clock and by the "+
				"terminal gateway, which accepts it: a revocation list or a CA of the ingress is out of date, or its clock is "+
				"wrong: %s", id.Cert.Leaf.NotAfter.Format(time.RFC3339), saw(wait))
	default:
		return nil
	}
	out.Direct = true
	return &out
}

// judgeProfileDrift compares the endpoint and the node name that the running agent uses with the expected ones. A
// denial by a listener that did not ask for the certificate is drift, never revocation.
func judgeProfileDrift(c *Case) *diag.Finding {
	env, wait := c.Fact(diag.HopNodeRecoveryStatus, stepProfile), c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	want := c.expected("node_runtime_api_url")
	have := ""
	if env != nil && env.Env != nil {
		have = env.Env.Values["GPUAAS_API_URL"]
	}
	var out diag.Finding
	name := ""
	if env != nil && env.Env != nil {
		name = env.Env.Values["GPUAAS_NODE_ID"]
	}
	switch {
	case name != "" && c.Subject.NodeID != "" && !sameNode(c, name):
		out = fail(diag.SigAuthFailed, env, "the running agent's GPUAAS_NODE_ID is %s, not %s", name,
			c.Subject.NodeID)
		out.Failure, out.Direct, out.Culprit = diag.FileMismatch, true, "node GPUAAS_NODE_ID"
		out.Reason = diag.ReasonEndpointProfileDrift // of the agent's environment file; its certificate is not at fault
		return &out
	case asksForNoCert(wait) && asProfiled(c):
		out = fail(diag.SigEndpointProfileDrift, wait, "%s did not ask for the node's certificate in its handshake, and the "+
			"profile names no other: its listener asks for none, or only for some paths, or it is a public edge: %s",
			where(wait), saw(wait))
		if asksForCert(c.Fact(diag.HopNodeRuntimeAPI, stepReach)) {
			out.Text += "; over another connection of this walk it did ask, so one of several servers there does not"
		}
		out.Direct, out.Side, out.Reason = true, diag.SideEdge, diag.ReasonControlPlaneUnreachable
		return &out
	case asksForNoCert(wait):
		out = fail(diag.SigEndpointProfileDrift, wait,
			"%s did not ask for the node's certificate: it is a public edge, not the node listener", where(wait))
		if want != "" && !sameEndpoint(have, want) {
			out.Text += "; the profile says " + endpointOf(want)
		}
	case want != "" && have != "" && !sameEndpoint(have, want):
		out = fail(diag.SigEndpointProfileDrift, env, "the running agent uses %s, the profile says %s", endpointOf(have),
			endpointOf(want))
		out.Failure, out.Culprit = diag.FileMismatch, culpritAgentURL
	default:
		return nil
	}
	out.Direct, out.Reason = true, diag.ReasonEndpointProfileDrift
	if agentEndpointWorks(c) {
		out.Text += "; the agent's endpoint accepts this node, so it is unknown which of the two is right"
		out.Reason = diag.ReasonNone
	}
	return &out
}

// judgeIdentity judges the certificate and key on the node: missing, unreadable, not a pair, another node's, or with
// wrong dates.
func judgeIdentity(c *Case) *diag.Finding {
	f := c.Fact(diag.HopNodeRecoveryStatus, stepIdentity)
	if f == nil {
		return nil
	}
	var out diag.Finding
	switch {
	case notAllowed(f) || f.Failure == diag.Unsupported || f.Failure == diag.Unknown || f.Failure == diag.Timeout:
		out = undecided(f, "the certificate could not be checked: %s", saw(f))
		return &out
	case datedAndAdmitted(c, f):
		out = warn(diag.SigAuthFailed, f, "the node's certificate %s: %s, but the platform accepts it", f.Request.Cert,
			saw(f))
		out.Reason = diag.ReasonNone
		return &out
	case !f.Passed() && shownAndAdmitted(c, f):
		out = walkAgain(f, fmt.Sprintf("%s and its key were replaced during this walk: %s, and the task wait "+
			"with them was accepted", f.Request.Cert, saw(f)))
		return &out
	case !f.Passed():
		out = fail(diag.SigAuthFailed, f, "the node's own credential is not usable: %s", saw(f))
		if wrongDated(f) {
			out.Text = fmt.Sprintf("the node's certificate %s, serial %s, is valid from %s to %s: %s", f.Request.Cert,
				f.Cert.Leaf.Serial, f.Cert.Leaf.NotBefore.Format(time.RFC3339), f.Cert.Leaf.NotAfter.Format(time.RFC3339), saw(f))
		} else if f.Detail != "" {
			out.Text += ": " + f.Detail
		}
		if f.Cert != nil && f.Cert.Leaf.Serial != "" && !wrongDated(f) {
			out.Text += fmt.Sprintf("; serial %s, valid from %s to %s", f.Cert.Leaf.Serial,
				f.Cert.Leaf.NotBefore.Format(time.RFC3339), f.Cert.Leaf.NotAfter.Format(time.RFC3339))
		}
	case f.Cert != nil && f.Cert.DeniedFile != "" && agentUnheard(c) && !taskClaimed(c):
		out = fail(diag.SigAuthFailed, f, "the agent's process has user %d, which may not read %s; this login may, so the "+
			"walk's own requests show nothing of it", f.Cert.DeniedUID, f.Cert.DeniedFile)
		out.Failure, out.Side = diag.FileUnreadable, diag.SideAgent
	case f.Cert != nil && f.Cert.NodeBound != nil && !*f.Cert.NodeBound && boundToSubject(c, f.Cert):
		return nil
	case f.Cert != nil && f.Cert.NodeBound != nil && !*f.Cert.NodeBound &&
		admitted(c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)):
		out = warn(diag.SigAuthFailed, f, "the certificate is bound to %s, and the platform lets it in as %s", f.Cert.BoundTo,
			c.Subject.NodeID)
		out.Failure, out.Reason = diag.FileMismatch, diag.ReasonNone // the platform decides whose it is
		return &out
	case f.Cert != nil && f.Cert.NodeBound != nil && !*f.Cert.NodeBound:
		out = fail(diag.SigAuthFailed, f, "the certificate is bound to %s, not to %s", f.Cert.BoundTo, c.Subject.NodeID)
		out.Failure = diag.FileMismatch
	default:
		return nil
	}
	out.Direct, out.Culprit = true, "node file "+f.Request.Cert
	if !f.Passed() && onlyAgentSees(c, f) {
		out.Side = diag.SideAgent
		claim(c, &out, claimAgentMounts)
	}
	return &out
}

// shownAndAdmitted reports whether a listener asked for the certificate of f, and let the node in with it.
func shownAndAdmitted(c *Case, f *diag.Fact) bool {
	wait := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	return admitted(wait) && asksForCert(wait) && wait.Request.Cert == f.Request.Cert
}

// datedAndAdmitted reports whether the platform accepts a certificate that fails by its dates.
func datedAndAdmitted(c *Case, f *diag.Fact) bool { return wrongDated(f) && shownAndAdmitted(c, f) }

// wrongDated reports whether a certificate was read, and fails by its dates.
func wrongDated(f *diag.Fact) bool {
	return f.Cert != nil && (f.Failure == diag.MTLSCertExpired || f.Failure == diag.MTLSCertNotYetValid)
}

// boundToSubject reports whether a certificate names the node by another of its names.
func boundToSubject(c *Case, cert *diag.CertFacts) bool {
	last := cert.BoundTo[strings.LastIndex(cert.BoundTo, ":")+1:]
	return sameNode(c, cert.BoundTo) || sameNode(c, last)
}

// judgeTaskWait judges the answer to the real task wait.
func judgeTaskWait(c *Case) *diag.Finding {
	f := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	if f == nil || admitted(f) {
		return nil
	}
	var out diag.Finding
	switch s := status(f); {
	case redirects(f):
		out = redirected(f)
	case f.Passed(), f.Failure == diag.HTTPEdgeAuth:
		what := "a web page"
		if f.Failure == diag.HTTPEdgeAuth {
			what = "a login, which no agent can pass,"
		}
		out = fail(diag.SigAPIUnreachable, f, "%s answers the node's task wait with %s instead of the node API's "+
			"response: %s", where(f), what, saw(f))
		out.Side = diag.SidePlatform
	case f.Throttled(): // also with 401 or 403: nothing behind the limiter has seen the certificate
		out = throttled(f, "this node's task wait")
	case edgeWithholds(c, f):
		out = heldBack(diag.SigAuthFailed, f, diag.ReasonControlPlaneUnreachable)
	case (s == 401 || s == 403) && platformDenies(f) && !withheld(f) && !deniesNode(c, f):
		out = fail(diag.SigAPIUnreachable, f, "%s, or what is in front of it, refuses the node's task wait: HTTP %d %s; %s, "+
			"so whether the platform denies this node is not known", where(f), s, code(f), letIn(c, f))
		out.Side, out.Reason = diag.SidePlatform, diag.ReasonControlPlaneUnreachable
	case (s == 401 || s == 403) && platformDenies(f) && !withheld(f):
		out = fail(diag.SigAuthFailed, f, "the platform denies this node: HTTP %d %s", s, code(f))
		out.Reason, _ = diag.DenialReason(code(f))
		out.Culprit = culpritDenied(c, f)
	case operatorGetsSame(c, f) && !foreignIssuer(c) && !badOwnCert(c):
		out = fail(diag.SigAPIUnreachable, f, "%s answers the node's task wait as the API answers the operator, who shows "+
			"no certificate: a limit or a filter of requests, and not the node's certificate: %s", where(f), saw(f))
		out.Side, out.Culprit = diag.SideEdge, culpritControlPlane
	case refusesCert(f) && (!vague(f) || foreignIssuer(c) || badOwnCert(c)):
		out = fail(diag.SigAuthFailed, f, "the ingress refuses the node's certificate: %s%s", saw(f), issued(c, f))
		out.Reason, out.Culprit = refusalReason(c, f), "node file "+f.Request.Cert
		if gatewayAccepts(c) && !badOwnCert(c) {
			out.Side = diag.SidePlatform
			out.Text += "; the terminal gateway accepts the same certificate: it is revoked here alone, or a CA, a revocation " +
				"list or the clock of the ingress is at fault"
		}
	case (s == 401 || s == 403 || (s == 400 && refusesCert(f))) && letIn(c, f) != "":
		out = fail(diag.SigAPIUnreachable, f, "HTTP %d comes from the ingress at %s, or from what is in front of it: the "+
			"answer has %s, and %s, so nothing shows that the platform denies this node", s, where(f), ofNoPlatform(f),
			letIn(c, f))
		out.Side = diag.SideEdge
	case s == 401 || s == 403 || (s == 400 && refusesCert(f)):
		out = fail(diag.SigAuthFailed, f,
			"HTTP %d comes from the ingress at %s, or from what is in front of it: the answer has %s, so whether the "+
				"platform denies this node is not known%s", s, where(f), ofNoPlatform(f), issued(c, f))
		out.Side = diag.SidePlatform
		out.Reason, out.Culprit = diag.ReasonIdentityRejectedRecoverable, "node file "+f.Request.Cert
	case distrusts(f): // a fault of the bundle, which hop 6 reports; or of one of several servers, which it did not meet
		out = fail(diag.SigAPITLSFailed, f, "no task wait was sent: %s could not be verified with the CA bundle: %s",
			where(f), saw(f))
		if inPhase(f, "tls") {
			out.Text = fmt.Sprintf("%s: %s%s", distrust(f), saw(f), presented(f))
		}
	case s >= 500 || good(f) || (s == 0 && inPhase(f, "dns", "tcp", "tls", "http")):
		out = fail(diag.SigAPIUnreachable, f, "the node's task wait gets %s from %s: %s", gets(f), where(f), saw(f))
		if claim(c, &out, claimBehindListener) || s >= 500 ||
			(s == 0 && f.Failure != diag.TCPReset && f.TLS != nil && f.TLS.Verified) {
			// The listener answers other requests, or this connection completed a verified handshake.
			out.Side = diag.SidePlatform
		}
		if hz := c.Fact(diag.HopControlPlaneAccess, stepHealthz); hz != nil && !hz.Passed() && inPhase(hz, "http") {
			out.Culprit = culpritControlPlane
		}
	default:
		out = undecided(f, "the task wait shows neither acceptance nor refusal: %s%s", saw(f), signer(f))
	}
	return &out
}

// judgeIssuerWord compares the platform's checklist about the issuer with a task wait that was let in; both are
// current.
func judgeIssuerWord(c *Case) *diag.Finding {
	w := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	if !admitted(w) || !asksForCert(w) || readModel(c, "node.check_issuer") != string(diag.MarkFail) {
		return nil
	}
	out := warn(diag.SigIngressCADrift, w,
		"a task wait with this certificate is accepted; the platform's own checklist says that the ingress does not trust "+
			"its issuer")
	out.Reason = diag.ReasonNone
	return &out
}
