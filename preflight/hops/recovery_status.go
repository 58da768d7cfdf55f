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
		ID: id, Agent: true, Budget: 9 * time.Second,
		Causes: hop.Causes{
			Behind: hop.PlatformReads(), ExplainedBy: []diag.HopID{diag.HopNodeReadiness, diag.HopNodeRuntimeAPI},
			Reads: []diag.HopID{diag.HopControlPlaneAccess, diag.HopNodeTerminalReachability},
		},
		About: hop.About{Clears: diag.AboutIdentity, AgentCame: world.AgentAnswered},
		Steps: append([]hop.Step{
			{
				Name: hop.StepIdentity, From: hop.Node, Timeout: 3 * time.Second,
				Needs:   hop.Needs{Hops: needSSH, Profile: hop.NeverIf(needsNoCertificate)},
				Excused: datedAndAdmitted,
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpCert, Cert: e.Profile.Agent.Cert, Key: e.Profile.Agent.Key,
						NodeID: e.Subject.NodeID}
				},
			},
			{
				Name: hop.StepProfile, From: hop.Node, Timeout: 3 * time.Second,
				Needs: hop.Needs{Hops: needSSH, Profile: hop.NeverIf(func(p *profile.Profile) string {
					if len(p.Agent.ToRead()) == 0 {
						return "no setting of the agent is read on the node (agent.api_url, agent.terminal_url, agent.node_id)"
					}
					return ""
				})},
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return diag.Request{Op: diag.OpEnv, Env: e.Profile.Agent.ToRead()}
				},
			},
			{
				Name: hop.StepTaskWait, From: hop.Node, Timeout: 5 * time.Second,
				Needs: hop.Needs{
					Hops:      []diag.HopID{diag.HopNodeOpsAccess, diag.HopNodeRuntimeAPI},
					Overrules: &hop.Overrule{Page: hop.FactID(diag.HopNodeRuntimeAPI, hop.StepReach), Works: reading.Admitted},
					Paths:     []string{profile.PathTaskWait},
					Profile: hop.NeverIf(func(p *profile.Profile) string {
						if p.Mapping.CanPeek() {
							return noAgentAPI(p)
						}
						return "this platform cannot be asked for a task without claiming it (mapping.peek: false)"
					}),
				},
				// It may claim a task.
				Policy: hop.Policy{Once: func(req diag.Request) bool { return !strings.Contains(req.Target, "peek=1") }},
				Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
					return e.AsAgent(diag.OpHTTP, e.Profile.Agent.API, profile.PathTaskWait, nil)
				},
			},
			{
				Name: hop.StepHostRecord, From: hop.Node, Timeout: 3 * time.Second,
				Needs: hop.Needs{Hops: needSSH, Profile: hop.NeverIf(keepsRecord)}, Policy: hop.Policy{Optional: true},
				Ask: readRecord,
			},
			{Name: stepClassifier, From: hop.Operator},
		}, listenerSteps()...),
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
				judgeCloned, judgeTrustDrift, judgeIssuer, judgeListeners, judgeProfileDrift, judgeIdentity, judgeTaskWait,
				judgeRecord, judgeIssuerWord, judgeVersion,
			} {
				if f := judge(c); f != nil {
					return []diag.Finding{*f}
				}
			}
			return nil
		},
		Pass: func(c *hop.Case) string {
			var parts []string
			if f := c.Fact(id, hop.StepIdentity); f != nil && f.Cert != nil {
				parts = append(parts, "certificate until "+f.Cert.Leaf.NotAfter.Format(time.DateTime))
			}
			if w := c.Fact(id, hop.StepTaskWait); w != nil {
				parts = append(parts, fmt.Sprintf("task wait answers %d", reading.Status(w)))
			}
			if len(parts) == 0 {
				return "the running agent's settings agree with the profile"
			}
			return strings.Join(parts, ", ")
		},
	}
}

// needsNoCertificate returns why a node of this platform needs no client certificate: none of the paths that take one
// is there.
func needsNoCertificate(p *profile.Profile) string {
	if p.Agent.Cert == "" {
		return "the profile names no client certificate of the agent (agent.cert, agent.pem)"
	}
	m := p.Mapping
	if !m.Lacks(profile.PathTaskWait) || !m.Lacks(profile.PathNodeTerminal) {
		return ""
	}
	return fmt.Sprintf("this platform has no path that takes a client certificate (mapping.paths.%s and "+
		"mapping.paths.%s: %q)", profile.PathTaskWait, profile.PathNodeTerminal, profile.Absent)
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

// judgeTrustDrift compares the CA that signs node certificates with the one that the ingress trusts, by the platform's
// fingerprints.
func judgeTrustDrift(c *hop.Case) *diag.Finding {
	signing, ingress := world.TrustedCAs(c)
	if signing == "" || ingress == "" || signing == ingress {
		return nil
	}
	out := reading.Fail(diag.SigIngressCADrift, c.Fact(diag.HopControlPlaneAccess, hop.StepAuth),
		"node certificates are signed by %.16s..., and the node ingress trusts %.16s...", signing, ingress)
	if wait := taskWait(c); wait != nil && reading.RefusesCert(wait) {
		out.Evidence = append(out.Evidence, wait.ID) // the refusal that follows
	}
	out.Direct = true
	return &out
}

// judgeIssuer judges the refusal of a good certificate, by the names in the ingress's handshake and by the terminal
// gateway.
func judgeIssuer(c *hop.Case) *diag.Finding {
	id := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	if !id.Passed() || id.Cert == nil || world.ForeignIssuer(c) {
		return nil
	}
	return issuerRows.judge(judged{c: c, f: taskWait(c), word: id.Cert.Leaf.Issuer})
}

// issuerRows are about the task wait; the word is the issuer of the node's certificate.
var issuerRows = rows{
	{when: func(j judged) bool { return !reading.RefusesCert(j.f) }},
	{when: func(j judged) bool { return reading.Unlisted(j.f, j.word) }, direct: true,
		then: fails(diag.SigIngressCADrift, "the certificate is good and was signed by %s, and the node ingress trusts "+
			"only %s", theWord, func(j judged) string { return hop.Clip(j.f.TLS.AcceptableCAs) })},
	{when: func(j judged) bool { return j.f.Failure == diag.MTLSUnknownCA && world.GatewayAccepts(j.c) }, direct: true,
		then: fails(diag.SigIngressCADrift, "the terminal gateway takes the certificate, which was signed by %s, and the "+
			"node ingress does not know that CA: %s", theWord, saw)},
	{when: func(j judged) bool { return j.f.Failure == diag.MTLSCertExpired && world.GatewayAccepts(j.c) }, direct: true,
		then: fails(diag.SigIngressCADrift, "the node ingress calls the node's certificate expired, which is valid until "+
			"%s by the node's clock and by the terminal gateway, which accepts it: a revocation list or a CA of the ingress "+
			"is out of date, or its clock is wrong: %s", notAfter, saw)},
}

// judgeProfileDrift compares the endpoint and the node name that the running agent uses with the expected ones. A
// denial by a listener that did not ask for the certificate is drift, never revocation.
func judgeProfileDrift(c *hop.Case) *diag.Finding {
	return driftRows.judge(judged{c: c, f: c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile)})
}

var driftRows = rows{
	{
		when: func(j judged) bool {
			return agentsNode(j) != "" && j.c.Subject.NodeID != "" && !world.SameNode(j.c, agentsNode(j))
		},
		then:    fails(diag.SigAuthFailed, "the running agent's %s is %s, not %s", nodeSetting, agentsNode, nodeID),
		failure: diag.FileMismatch, direct: true,
		also:   func(j judged, out *diag.Finding) { out.Culprit = "node " + j.c.AgentNames().NodeID },
		reason: diag.ReasonEndpointProfileDrift, // of the agent's environment file; its certificate is not at fault
	},
	{of: taskWait,
		when: func(j judged) bool { return reading.AsksForNoCert(j.f) && world.AsProfiled(j.c) },
		then: fails(diag.SigEndpointProfileDrift, "%s did not ask for the node's certificate in its handshake, and the "+
			"profile names no other: its listener asks for none, or only for some paths, or it is a public edge: %s", where,
			saw),
		side: diag.SideEdge, reason: diag.ReasonControlPlaneUnreachable, direct: true,
		also: func(j judged, out *diag.Finding) {
			if reading.AsksForCert(j.c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)) {
				out.Text += "; over another connection of this walk it did ask, so one of several servers there does not"
			}
		}},
	{of: taskWait,
		when: func(j judged) bool { return reading.AsksForNoCert(j.f) },
		then: fails(diag.SigEndpointProfileDrift, "%s did not ask for the node's certificate: it is a public edge, not the "+
			"node listener", where),
		direct: true,
		also: func(j judged, out *diag.Finding) {
			if profilesAPI(j) != "" && !hop.SameEndpoint(agentsAPI(j), profilesAPI(j)) {
				out.Text += "; the profile says " + hop.EndpointOf(profilesAPI(j))
			}
			orProfile(j, out)
		}},
	{
		when: func(j judged) bool {
			return profilesAPI(j) != "" && agentsAPI(j) != "" && !hop.SameEndpoint(agentsAPI(j), profilesAPI(j))
		},
		then: fails(diag.SigEndpointProfileDrift, "the running agent uses %s, the profile says %s",
			func(j judged) string { return hop.EndpointOf(agentsAPI(j)) },
			func(j judged) string { return hop.EndpointOf(profilesAPI(j)) }),
		failure: diag.FileMismatch, direct: true,
		also: func(j judged, out *diag.Finding) {
			out.Culprit = world.CulpritAgentURL(j.c)
			orProfile(j, out)
		},
	},
}

func profilesAPI(j judged) string { return j.c.Expected("node_runtime_api_url") }
func nodeSetting(j judged) string { return j.c.AgentNames().NodeID }
func agentsAPI(j judged) string   { return agentsSetting(j, j.c.AgentNames().API) }
func agentsNode(j judged) string  { return agentsSetting(j, nodeSetting(j)) }

// agentsSetting returns a setting of the running agent, "" if it has none.
func agentsSetting(j judged, name string) string {
	return j.c.AgentSetting(j.c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile), name)
}

// orProfile adds the reason of an endpoint that is not the profile's: none if the agent's own accepts the node.
func orProfile(j judged, out *diag.Finding) {
	out.Reason = diag.ReasonEndpointProfileDrift
	if world.AgentEndpointWorks(j.c) {
		out.Text += "; the agent's endpoint accepts this node, so it is unknown which of the two is right"
		out.Reason = diag.ReasonNone
	}
}

// judgeIdentity judges the certificate and key on the node: missing, unreadable, not a pair, another node's, or with
// wrong dates.
func judgeIdentity(c *hop.Case) *diag.Finding {
	return identityRows.judge(judged{c: c, f: identity(c)})
}

func identity(c *hop.Case) *diag.Fact { return c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity) }

var identityRows = rows{
	{
		when: func(j judged) bool {
			return reading.NotAllowed(j.f) || j.f.Failure == diag.Unsupported || j.f.Failure == diag.Unknown ||
				j.f.Failure == diag.Timeout
		},
		then: undecided("the certificate could not be checked: %s", saw),
	},
	{when: func(j judged) bool { return datedAndAdmitted(j.c, j.f) }, reason: diag.ReasonNone,
		then: warns(diag.SigAuthFailed, "the node's certificate %s: %s, but the platform accepts it", certFile, saw)},
	{when: func(j judged) bool { return !j.f.Passed() && shownAndAdmitted(j.c, j.f) },
		then: func(j judged) diag.Finding {
			return world.WalkAgain(j.f, fmt.Sprintf("%s and its key were replaced during this walk: %s, and the task wait with "+
				"them was accepted", certFile(j), saw(j)))
		}},
	{when: func(j judged) bool { return wrongDated(j.f) },
		then: fails(diag.SigAuthFailed, "the node's certificate %s, serial %s, is valid from %s to %s: %s", certFile, serial,
			notBefore, notAfter, saw),
		also: ofCredential},
	{when: func(j judged) bool { return !j.f.Passed() },
		then: fails(diag.SigAuthFailed, "the node's own credential is not usable: %s%s%s", saw, detail, whichCert),
		also: ofCredential},
	{
		when: func(j judged) bool {
			return j.f.Cert != nil && j.f.Cert.DeniedFile != "" && world.AgentUnheard(j.c) && !world.TaskClaimed(j.c)
		},
		then: fails(diag.SigAuthFailed, "the agent's process has user %s, which may not read %s; this login may, so the "+
			"walk's own requests show nothing of it", func(j judged) string { return fmt.Sprint(j.f.Cert.DeniedUID) },
			func(j judged) string { return j.f.Cert.DeniedFile }),
		failure: diag.FileUnreadable, side: diag.SideAgent, also: ofCredential,
	},
	{when: func(j judged) bool { return world.NotForClients(j.c) != "" && reading.RefusesCert(taskWait(j.c)) },
		then: fails(diag.SigAuthFailed, "the ingress refuses the node's certificate %s: %s%s; %s", certFile,
			func(j judged) string { return world.NotForClients(j.c) }, whichCert,
			func(j judged) string { return reading.Saw(taskWait(j.c)) }),
		failure: diag.MTLSCertRejected, also: ofCredential},
	{when: func(j judged) bool { return !boundToAnother(j) }},
	// the platform decides whose it is
	{when: func(j judged) bool { return reading.Admitted(taskWait(j.c)) },
		then: warns(diag.SigAuthFailed, "the certificate is bound to %s, and the platform lets it in as %s", boundTo,
			nodeID),
		failure: diag.FileMismatch, reason: diag.ReasonNone},
	{then: fails(diag.SigAuthFailed, "the certificate is bound to %s, not to %s", boundTo, nodeID),
		failure: diag.FileMismatch, also: ofCredential},
}

func boundTo(j judged) string { return j.f.Cert.BoundTo }

func whichCert(j judged) string {
	if j.f.Cert == nil || serial(j) == "" {
		return ""
	}
	return fmt.Sprintf("; serial %s, valid from %s to %s", serial(j), notBefore(j), notAfter(j))
}

func serial(j judged) string    { return identity(j.c).Cert.Leaf.Serial }
func notBefore(j judged) string { return identity(j.c).Cert.Leaf.NotBefore.Format(time.RFC3339) }
func notAfter(j judged) string  { return identity(j.c).Cert.Leaf.NotAfter.Format(time.RFC3339) }

// ofCredential names the node's credential as the thing at fault, and the agent's view of it if that alone lacks it.
func ofCredential(j judged, out *diag.Finding) {
	out.Direct, out.Culprit = true, culpritCert(j)
	world.AddFolderGone(j.c, out)
	if !j.f.Passed() && world.OnlyAgentSees(j.c, j.f) {
		out.Side = diag.SideAgent
		world.Claim(j.c, out, world.ClaimAgentMounts)
	}
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

// boundToAnother reports whether a certificate names another node, and this one by none of its names.
func boundToAnother(j judged) bool {
	cert := j.f.Cert
	if cert == nil || cert.NodeBound == nil || *cert.NodeBound {
		return false
	}
	last := cert.BoundTo[strings.LastIndex(cert.BoundTo, ":")+1:]
	return !world.SameNode(j.c, cert.BoundTo) && !world.SameNode(j.c, last)
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
