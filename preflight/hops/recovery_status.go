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

// Longer than 300 lines: a hop's requests and its judge are in one file.

const (
	stepClassifier = "classifier"
)

// nodeRecoveryStatus: which identity and which endpoints does the node have, and does the platform accept it? The
// proof is a real task wait by mTLS that claims nothing.
func nodeRecoveryStatus() hop.Hop {
	id := diag.HopNodeRecoveryStatus
	needSSH := []diag.HopID{diag.HopNodeOpsAccess}
	return hop.Hop{
		ID: id, Behind: hop.PlatformReads(), Budget: 9 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI},
		Reads:       []diag.HopID{diag.HopControlPlaneAccess, diag.HopNodeTerminalReachability},
		Clears:      diag.AboutIdentity, AgentCame: world.AgentAnswered,
		Steps: []hop.Step{
			{
				Name: hop.StepIdentity, From: hop.Node, Timeout: 3 * time.Second, Needs: needSSH, Excused: datedAndAdmitted,
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpCert, Cert: e.AgentFile("cert.pem"), Key: e.AgentFile("key.pem"),
						NodeID: e.Subject.NodeID}
				},
			},
			{Name: hop.StepProfile, From: hop.Node, Timeout: 3 * time.Second, Needs: needSSH, Ask: func(*hop.Env,
				*hop.Case) diag.Request {
				return diag.Request{Op: diag.OpEnv,
					Env: []string{"GPUAAS_API_URL", "GPUAAS_TERMINAL_API_URL", "GPUAAS_NODE_ID", world.EnvToken}}
			}},
			{
				Name: hop.StepTaskWait, From: hop.Node, Timeout: 5 * time.Second,
				Needs:     []diag.HopID{diag.HopNodeOpsAccess, diag.HopNodeRuntimeAPI},
				Overrules: &hop.Overrule{Page: hop.FactID(diag.HopNodeRuntimeAPI, hop.StepReach), Works: reading.Admitted},
				Paths:     []string{profile.PathTaskWait},
				NotThere: func(m profile.Mapping) string {
					if m.CanPeek() {
						return ""
					}
					return "this platform cannot be asked for a task without claiming it (mapping.peek: false)"
				},
				Once: func(req diag.Request) bool { return !strings.Contains(req.Target, "peek=1") }, // it may claim a task
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return e.AsAgent(diag.OpHTTP, "GPUAAS_API_URL", profile.PathTaskWait, nil)
				},
			},
			{
				Name: hop.StepHostRecord, From: hop.Node, Timeout: 3 * time.Second, Needs: needSSH, Optional: true,
				NotThere: keepsRecord, Ask: readRecord,
			},
			{Name: stepClassifier, From: hop.Operator, Pure: true},
		},
		Counter: func(e *hop.Env, _ *hop.Case, failing *diag.Fact) []hop.Counter {
			switch failing.Request.Op {
			case diag.OpCert:
				return reading.HostView(failing)
			case diag.OpHTTP:
				other := world.OtherListener(e, failing, e.Profile.NodeTerminalURL, profile.PathNodeTerminal,
					map[string]string{"session_id": hop.UnknownSessionID})
				if reading.HungUp(failing) { // a listener's habit, if it ends the operator's connection as well
					other = append(other, reading.FromOperator(e, failing, e.Profile.NodeRuntimeResolveAddress)...)
				}
				return append(other, world.ProfileURL(e, failing, e.Profile.NodeRuntimeAPIURL, profile.PathTaskWait, nil)...)
			}
			return nil
		},
		Judge: func(c *hop.Case) []diag.Finding {
			for _, judge := range []func(*hop.Case) *diag.Finding{
				judgeCloned, judgeTrustDrift, judgeProfileDrift, judgeIdentity, judgeTaskWait, judgeRecord, judgeIssuerWord,
				judgeVersion,
			} {
				if f := judge(c); f != nil {
					return []diag.Finding{*f}
				}
			}
			return nil
		},
		Pass: func(c *hop.Case) string {
			f := c.Fact(id, hop.StepIdentity)
			if f == nil || f.Cert == nil {
				return "a task wait is accepted"
			}
			text := fmt.Sprintf("certificate until %s", f.Cert.Leaf.NotAfter.Format(time.DateTime))
			if w := c.Fact(id, hop.StepTaskWait); w != nil {
				text += fmt.Sprintf(", task wait answers %d", reading.Status(w))
			}
			return text
		},
	}
}

// judgeCloned judges by the platform's word: only the platform sees two machines with one identity.
func judgeCloned(c *hop.Case) *diag.Finding {
	f, wait := world.LastRead(c), c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	if reading.Code(wait) == "cloned" && world.DeniesNode(c, wait) {
		f = wait
	} else if hop.FieldOf(f, "node.recovery_reason") != string(diag.ReasonClonedIdentity) {
		return nil
	}
	out := reading.Fail(diag.SigIdentityCloned, f, "the platform sees more than one machine with the identity of %s",
		c.Subject.NodeID)
	out.Direct, out.Culprit = true, "identity of "+c.Subject.NodeID+" cloned"
	return &out
}

// judgeTrustDrift compares the CA that signs node certificates with those that the ingress trusts: by the platform's
// fingerprints, and by the names in the ingress's handshake.
func judgeTrustDrift(c *hop.Case) *diag.Finding {
	trust := c.Fact(diag.HopControlPlaneAccess, hop.StepAuth)
	signing, ingress := world.TrustedCAs(c)
	if signing != "" && ingress != "" && signing != ingress {
		out := reading.Fail(diag.SigIngressCADrift, trust,
			"node certificates are signed by %.16s..., and the node ingress trusts %.16s...", signing, ingress)
		if wait := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait); wait != nil && reading.RefusesCert(wait) {
			out.Evidence = append(out.Evidence, wait.ID) // the refusal that follows
		}
		out.Direct = true
		return &out
	}
	wait, id := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait), c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	if wait == nil || !reading.RefusesCert(wait) || id == nil || id.Cert == nil || !id.Passed() || world.ForeignIssuer(c) {
		return nil
	}
	var out diag.Finding
	issuer := id.Cert.Leaf.Issuer
	switch {
	case reading.Unlisted(wait, issuer):
		out = reading.Fail(diag.SigIngressCADrift, wait,
			"the certificate is good and was signed by %s, and the node ingress trusts only %s", issuer,
			hop.Clip(wait.TLS.AcceptableCAs))
	case wait.Failure == diag.MTLSUnknownCA && world.GatewayAccepts(c):
		out = reading.Fail(diag.SigIngressCADrift, wait,
			"the terminal gateway takes the certificate, which was signed by %s, and the node "+
				"ingress does not know that CA: %s", issuer, reading.Saw(wait))
	case wait.Failure == diag.MTLSCertExpired && world.GatewayAccepts(c):
		out = reading.Fail(diag.SigIngressCADrift, wait,
			"the node ingress calls the node's certificate expired, which is valid until %s by the node's clock and by the "+
				"terminal gateway, which accepts it: a revocation list or a CA of the ingress is out of date, or its clock is "+
				"wrong: %s", id.Cert.Leaf.NotAfter.Format(time.RFC3339), reading.Saw(wait))
	default:
		return nil
	}
	out.Direct = true
	return &out
}

// judgeProfileDrift compares the endpoint and the node name that the running agent uses with the expected ones. A
// denial by a listener that did not ask for the certificate is drift, never revocation.
func judgeProfileDrift(c *hop.Case) *diag.Finding {
	env, wait := c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile), c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	want := c.Expected("node_runtime_api_url")
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
	case name != "" && c.Subject.NodeID != "" && !world.SameNode(c, name):
		out = reading.Fail(diag.SigAuthFailed, env, "the running agent's GPUAAS_NODE_ID is %s, not %s", name,
			c.Subject.NodeID)
		out.Failure, out.Direct, out.Culprit = diag.FileMismatch, true, "node GPUAAS_NODE_ID"
		out.Reason = diag.ReasonEndpointProfileDrift // of the agent's environment file; its certificate is not at fault
		return &out
	case reading.AsksForNoCert(wait) && world.AsProfiled(c):
		out = reading.Fail(diag.SigEndpointProfileDrift, wait,
			"%s did not ask for the node's certificate in its handshake, and the "+
				"profile names no other: its listener asks for none, or only for some paths, or it is a public edge: %s",
			reading.Where(wait), reading.Saw(wait))
		if reading.AsksForCert(c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)) {
			out.Text += "; over another connection of this walk it did ask, so one of several servers there does not"
		}
		out.Direct, out.Side, out.Reason = true, diag.SideEdge, diag.ReasonControlPlaneUnreachable
		return &out
	case reading.AsksForNoCert(wait):
		out = reading.Fail(diag.SigEndpointProfileDrift, wait,
			"%s did not ask for the node's certificate: it is a public edge, not the node listener", reading.Where(wait))
		if want != "" && !hop.SameEndpoint(have, want) {
			out.Text += "; the profile says " + hop.EndpointOf(want)
		}
	case want != "" && have != "" && !hop.SameEndpoint(have, want):
		out = reading.Fail(diag.SigEndpointProfileDrift, env, "the running agent uses %s, the profile says %s",
			hop.EndpointOf(have), hop.EndpointOf(want))
		out.Failure, out.Culprit = diag.FileMismatch, world.CulpritAgentURL
	default:
		return nil
	}
	out.Direct, out.Reason = true, diag.ReasonEndpointProfileDrift
	if world.AgentEndpointWorks(c) {
		out.Text += "; the agent's endpoint accepts this node, so it is unknown which of the two is right"
		out.Reason = diag.ReasonNone
	}
	return &out
}

// judgeIdentity judges the certificate and key on the node: missing, unreadable, not a pair, another node's, or with
// wrong dates.
func judgeIdentity(c *hop.Case) *diag.Finding {
	f := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	if f == nil {
		return nil
	}
	var out diag.Finding
	switch {
	case reading.NotAllowed(f) || f.Failure == diag.Unsupported || f.Failure == diag.Unknown || f.Failure == diag.Timeout:
		out = reading.Undecided(f, "the certificate could not be checked: %s", reading.Saw(f))
		return &out
	case datedAndAdmitted(c, f):
		out = reading.Warn(diag.SigAuthFailed, f, "the node's certificate %s: %s, but the platform accepts it",
			f.Request.Cert, reading.Saw(f))
		out.Reason = diag.ReasonNone
		return &out
	case !f.Passed() && shownAndAdmitted(c, f):
		out = world.WalkAgain(f, fmt.Sprintf("%s and its key were replaced during this walk: %s, and the task wait "+
			"with them was accepted", f.Request.Cert, reading.Saw(f)))
		return &out
	case !f.Passed():
		out = reading.Fail(diag.SigAuthFailed, f, "the node's own credential is not usable: %s", reading.Saw(f))
		if wrongDated(f) {
			out.Text = fmt.Sprintf("the node's certificate %s, serial %s, is valid from %s to %s: %s", f.Request.Cert,
				f.Cert.Leaf.Serial, f.Cert.Leaf.NotBefore.Format(time.RFC3339), f.Cert.Leaf.NotAfter.Format(time.RFC3339),
				reading.Saw(f))
		} else if f.Detail != "" {
			out.Text += ": " + f.Detail
		}
		if f.Cert != nil && f.Cert.Leaf.Serial != "" && !wrongDated(f) {
			out.Text += fmt.Sprintf("; serial %s, valid from %s to %s", f.Cert.Leaf.Serial,
				f.Cert.Leaf.NotBefore.Format(time.RFC3339), f.Cert.Leaf.NotAfter.Format(time.RFC3339))
		}
	case f.Cert != nil && f.Cert.DeniedFile != "" && world.AgentUnheard(c) && !world.TaskClaimed(c):
		out = reading.Fail(diag.SigAuthFailed, f,
			"the agent's process has user %d, which may not read %s; this login may, so the "+
				"walk's own requests show nothing of it", f.Cert.DeniedUID, f.Cert.DeniedFile)
		out.Failure, out.Side = diag.FileUnreadable, diag.SideAgent
	case f.Cert != nil && f.Cert.NodeBound != nil && !*f.Cert.NodeBound && boundToSubject(c, f.Cert):
		return nil
	case f.Cert != nil && f.Cert.NodeBound != nil && !*f.Cert.NodeBound &&
		reading.Admitted(c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)):
		out = reading.Warn(diag.SigAuthFailed, f, "the certificate is bound to %s, and the platform lets it in as %s",
			f.Cert.BoundTo, c.Subject.NodeID)
		out.Failure, out.Reason = diag.FileMismatch, diag.ReasonNone // the platform decides whose it is
		return &out
	case f.Cert != nil && f.Cert.NodeBound != nil && !*f.Cert.NodeBound:
		out = reading.Fail(diag.SigAuthFailed, f, "the certificate is bound to %s, not to %s", f.Cert.BoundTo,
			c.Subject.NodeID)
		out.Failure = diag.FileMismatch
	default:
		return nil
	}
	out.Direct, out.Culprit = true, "node file "+f.Request.Cert
	if !f.Passed() && world.OnlyAgentSees(c, f) {
		out.Side = diag.SideAgent
		world.Claim(c, &out, world.ClaimAgentMounts)
	}
	return &out
}

// shownAndAdmitted reports whether a listener asked for the certificate of f, and let the node in with it.
func shownAndAdmitted(c *hop.Case, f *diag.Fact) bool {
	wait := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	return reading.Admitted(wait) && reading.AsksForCert(wait) && wait.Request.Cert == f.Request.Cert
}

// datedAndAdmitted reports whether the platform accepts a certificate that fails by its dates.
func datedAndAdmitted(c *hop.Case, f *diag.Fact) bool { return wrongDated(f) && shownAndAdmitted(c, f) }

// wrongDated reports whether a certificate was read, and fails by its dates.
func wrongDated(f *diag.Fact) bool {
	return f.Cert != nil && (f.Failure == diag.MTLSCertExpired || f.Failure == diag.MTLSCertNotYetValid)
}

// boundToSubject reports whether a certificate names the node by another of its names.
func boundToSubject(c *hop.Case, cert *diag.CertFacts) bool {
	last := cert.BoundTo[strings.LastIndex(cert.BoundTo, ":")+1:]
	return world.SameNode(c, cert.BoundTo) || world.SameNode(c, last)
}

// judgeIssuerWord compares the platform's checklist about the issuer with a task wait that was let in; both are
// current.
func judgeIssuerWord(c *hop.Case) *diag.Finding {
	w := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	if !reading.Admitted(w) || !reading.AsksForCert(w) || world.ReadModel(c,
		"node.check_issuer") != string(diag.MarkFail) {
		return nil
	}
	out := reading.Warn(diag.SigIngressCADrift, w,
		"a task wait with this certificate is accepted; the platform's own checklist says that the ingress does not trust "+
			"its issuer")
	out.Reason = diag.ReasonNone
	return &out
}
