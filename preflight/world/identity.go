package world

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/profile"
)

// BadOwnCert reports whether the node's credential is known to be invalid: by its files, or because both listeners
// refuse it.
func BadOwnCert(c *hop.Case) bool {
	f, wait := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity), c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	switch {
	case f == nil:
		return false
	case NotForClients(c) != "":
		return true
	case !f.Passed(), f.Cert != nil && f.Cert.NodeBound != nil && !*f.Cert.NodeBound:
		return true
	}
	return ForeignIssuer(c) && reading.RefusesCert(wait) // both listeners refuse a certificate that looks good
}

// NotForClients describes a node's certificate, or a CA of its chain, whose extended key usage keeps every listener
// that checks it from accepting a client with it; "" for another one, or if none was read.
func NotForClients(c *hop.Case) string {
	f := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	if f == nil || f.Cert == nil {
		return ""
	}
	for _, cert := range append([]diag.CertInfo{f.Cert.Leaf}, f.Cert.Chain...) {
		if words := reading.NotForClients(&cert); words != "" {
			return words
		}
	}
	return ""
}

// SignalOfReason returns the signal of hop 7 for a reason that the node itself names.
func SignalOfReason(code diag.ReasonCode) diag.Signal {
	// Any other reason means a silent node; the finding's reason says why.
	return cmp.Or(map[diag.ReasonCode]diag.Signal{
		diag.ReasonClonedIdentity:              diag.SigIdentityCloned,
		diag.ReasonIdentityRevokedOrFenced:     diag.SigAuthFailed,
		diag.ReasonCertExpired:                 diag.SigAuthFailed,
		diag.ReasonIdentityRejectedRecoverable: diag.SigAuthFailed,
		diag.ReasonRecoveryTokenMissing:        diag.SigAuthFailed,
		diag.ReasonRecoveryEnrollmentBlocked:   diag.SigAuthFailed,
		diag.ReasonDiskFull:                    diag.SigDiskFull,
		diag.ReasonCertUntrustedByIngress:      diag.SigIngressCADrift,
		diag.ReasonEndpointProfileDrift:        diag.SigEndpointProfileDrift,
		diag.ReasonTaskResultPostFailed:        diag.SigResultPostFailed,
		diag.ReasonAgentVersionDrift:           diag.SigVersionDrift,
	}[code], diag.SigHeartbeatStale)
}

// TrustedCAs returns the CA that signs node certificates now, and the CA that the node ingress trusts: the signing CA
// if the platform reports it as trusted, or if a certificate of it was let in. While a CA is replaced the ingress
// trusts the old and the new one, and trust.ingress_ca names only the first.
func TrustedCAs(c *hop.Case) (signing, ingress string) {
	trust, wait := c.Fact(diag.HopControlPlaneAccess, hop.StepAuth), c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	signing = diag.Fingerprint(hop.FieldOf(trust, "trust.signing_ca"))
	letIn := reading.Admitted(wait) && reading.AsksForCert(wait)
	switch {
	case hop.FieldOf(trust, "trust.ingress_trusts_signing_ca") == "true",
		// or a certificate of that CA was let in
		letIn && signing != "" && diag.Fingerprint(ReadModel(c, "node.cert_issuer_fingerprint")) == signing:
		return signing, signing
	}
	return signing, diag.Fingerprint(hop.FieldOf(trust, "trust.ingress_ca"))
}

// SigningCAName returns the name of the CA that signs node certificates, and how it is known: the platform, or the
// profile, states its fingerprint, and a bundle or a chain of this walk has the certificate. "" if it is not known.
func SigningCAName(c *hop.Case) (name, by string) {
	signing, _ := TrustedCAs(c)
	by = "as it states"
	if signing == "" {
		signing, by = diag.Fingerprint(c.Expected("signing_ca_fingerprint")), "as the profile states"
	}
	if signing == "" {
		return "", ""
	}
	for _, step := range [...]string{hop.StepAPIListener, hop.StepTerminalListener} {
		f := c.Fact(diag.HopNodeRecoveryStatus, step)
		if f == nil || f.TLS == nil {
			continue
		}
		for _, cert := range slices.Concat(f.TLS.TrustRoots, f.TLS.Chain) {
			if cert.Fingerprint == signing {
				return cert.Subject, by
			}
		}
	}
	return "", ""
}

// AsksForOthers reports whether the listeners for nodes, by the operator's handshakes, ask for certificates of
// different CAs: a node has one certificate for both.
func AsksForOthers(c *hop.Case) bool {
	api, terminal := c.Fact(diag.HopNodeRecoveryStatus, hop.StepAPIListener),
		c.Fact(diag.HopNodeRecoveryStatus, hop.StepTerminalListener)
	if !asksFor(api) || !asksFor(terminal) || len(api.TLS.AcceptableCAs) == 0 || len(terminal.TLS.AcceptableCAs) == 0 {
		return false
	}
	return !slices.ContainsFunc(api.TLS.AcceptableCAs, func(name string) bool {
		return slices.Contains(terminal.TLS.AcceptableCAs, name)
	})
}

// ForeignIssuer reports whether the terminal gateway does not know the CA of the node's certificate either: then the
// certificate is at fault, and not the trust of one listener.
func ForeignIssuer(c *hop.Case) bool {
	f, id := c.Fact(diag.HopNodeTerminalReachability, hop.StepStream), c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	if f == nil || f.Failure == diag.MTLSUnknownCA {
		return f != nil
	}
	return reading.RefusesCert(f) && id != nil && id.Cert != nil && reading.Unlisted(f, id.Cert.Leaf.Issuer)
}

// AsProfiled reports whether the running agent uses the profile's endpoint. Then the server there is at fault, and not
// the node's settings.
func AsProfiled(c *hop.Case) bool {
	env, want := c.Fact(diag.HopNodeRecoveryStatus, hop.StepProfile), c.Expected("node_runtime_api_url")
	name := c.AgentNames().API
	return ((env != nil && env.Env != nil) || strings.Contains(name, "://")) && want != "" &&
		hop.SameEndpoint(c.AgentSetting(env, name), want)
}

// TokenRead reports whether an answer shows that a token was read.
func TokenRead(f *diag.Fact) bool {
	switch reading.Code(f) {
	case "invalid_token", "insufficient_scope", "token_expired", "token_revoked", "token_consumed":
		return true
	}
	return false
}

// EdgeWithholds reports whether an edge alone explains f: it did not pass the certificate on, and nothing shows that it
// may distrust it.
func EdgeWithholds(c *hop.Case, f *diag.Fact) bool {
	id := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	return reading.Withheld(f) && !BadOwnCert(c) && !ForeignIssuer(c) &&
		(id == nil || id.Cert == nil || !reading.Unlisted(f, id.Cert.Leaf.Issuer))
}

// RefusalReason returns the reason for a refusal because of the node's certificate; "" if the failure itself implies
// it. For an unknown CA, and a page of the edge, the walk knows more than the failure.
func RefusalReason(c *hop.Case, f *diag.Fact) diag.ReasonCode {
	switch {
	case f.Failure == diag.MTLSCertExpired, f.Failure == diag.MTLSCertNotYetValid,
		f.Failure == diag.MTLSUnknownCA && !ForeignIssuer(c):
		return ""
	}
	return diag.ReasonIdentityRejectedRecoverable
}

// Issued describes who issued the node's certificate, and which CAs the listener of f accepts.
func Issued(c *hop.Case, f *diag.Fact) string {
	id := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity)
	if id == nil || id.Cert == nil {
		return ""
	}
	text := "; it was issued by " + id.Cert.Leaf.Issuer
	if f.TLS != nil && len(f.TLS.AcceptableCAs) > 0 {
		text += ", and certificates of " + hop.Clip(f.TLS.AcceptableCAs) + " are asked for"
	}
	if f.Failure == diag.MTLSCertExpired && id.Passed() {
		text += fmt.Sprintf(
			"; by the node's clock it is valid until %s: compare the ingress's clock, and the dates of its CA",
			id.Cert.Leaf.NotAfter.Format(time.RFC3339))
	}
	return text
}

// OurAgent tells whether the node's agent is gpuaas-agent. It is the one reading of whose agent it is: a rule about
// gpuaas-agent's files and variables holds where it is, and not where it is not. The program itself decides; without
// one that could be read, a process that runs without its API's variable, which gpuaas-agent needs to start, and then a
// profile that declares another agent.
func OurAgent(c *hop.Case) Known {
	binary, reach := c.Fact(diag.HopNodeReadiness, hop.StepBinary), c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)
	if binary != nil && binary.Binary != nil && binary.Binary.OurAgent != nil {
		ours := *binary.Binary.OurAgent
		return either(ours, !ours, binary)
	}
	without := reach != nil && reading.InPhase(reach, "env") && !reading.NotAllowed(reach) &&
		c.Fact(diag.HopNodeReadiness, hop.StepProcess).Passed()
	if without {
		return either(false, true, reach)
	}
	return either(false, binary != nil && binary.Request.Target != "" && !DeclaredOurs(&binary.Request), binary)
}

// DeclaredOurs reports whether the agent should be gpuaas-agent, by the profile's values in the request for its
// program.
func DeclaredOurs(r *diag.Request) bool {
	return profile.Agent{Unit: r.Unit, Binary: r.Target, VersionCommand: r.VersionCommand}.IsOurs()
}

// NamesNoURL reports whether f lacks a variable that only gpuaas-agent has, and the agent is another one.
func NamesNoURL(c *hop.Case, f *diag.Fact) bool { return reading.InPhase(f, "env") && OurAgent(c).No() }

// culpritAgentFolder is the culprit if the folder of our agent's credentials is gone.
const culpritAgentFolder = "node agent's folder"

// AddFolderGone adds to the finding of a missing file of gpuaas-agent that the others of its folder are missing as
// well: then the folder is gone, and one fault. The running agent has read its files, and may work until it restarts.
func AddFolderGone(c *hop.Case, out *diag.Finding) {
	id, reach := c.Fact(diag.HopNodeRecoveryStatus, hop.StepIdentity), c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)
	if !OurAgent(c).Yes() || !missingFile(c, id) || !missingFile(c, reach) {
		return
	}
	out.Side, out.Culprit = diag.SideNode, culpritAgentFolder
	out.Text += fmt.Sprintf("; neither %s nor %s is on the node, and its agent is gpuaas-agent, which needs both to start",
		id.Request.Cert, reach.Request.CABundle)
	if heardSinceStart(c) {
		out.Text += "; it still reports, by what it has read before"
	}
}

// heardSinceStart reports whether the platform heard from the agent's present process.
func heardSinceStart(c *hop.Case) bool {
	unit := c.Fact(diag.HopNodeReadiness, hop.StepProcess)
	if AgentAnswered(c) != "" || unit == nil || unit.Unit == nil || unit.Unit.UptimeS == nil {
		return AgentAnswered(c) != ""
	}
	age, known := ContactAge(c)
	return known && ContactFresh(c) && age < time.Duration(*unit.Unit.UptimeS)*time.Second
}

// missingFile reports whether f lacked a file that a login does not see either.
func missingFile(c *hop.Case, f *diag.Fact) bool {
	return f != nil && f.Failure == diag.FileMissing && !OnlyAgentSees(c, f)
}
