package preflight

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// badOwnCert reports whether the node's credential is known to be invalid: by its files, or because both listeners
// refuse it.
func badOwnCert(c *Case) bool {
	f, wait := c.Fact(diag.HopNodeRecoveryStatus, stepIdentity), c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	switch {
	case f == nil:
		return false
	case !f.Passed(), f.Cert != nil && f.Cert.NodeBound != nil && !*f.Cert.NodeBound:
		return true
	}
	return foreignIssuer(c) && refusesCert(wait) // both listeners refuse a certificate that looks good
}

// signalOfReason returns the signal of hop 7 for a reason that the node itself names.
func signalOfReason(code diag.ReasonCode) diag.Signal {
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

const envToken = "GPUAAS_ENROLLMENT_TOKEN"

// trustedCAs returns the CA that signs node certificates now, and the CA that the node ingress trusts: the signing CA
// if the platform reports it as trusted, or if a certificate of it was let in. While a CA is replaced the ingress
// trusts the old and the new one, and trust.ingress_ca names only the first.
func trustedCAs(c *Case) (signing, ingress string) {
	trust, wait := c.Fact(diag.HopControlPlaneAccess, stepAuth), c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	signing = diag.Fingerprint(fieldOf(trust, "trust.signing_ca"))
	letIn := admitted(wait) && asksForCert(wait)
	switch {
	case fieldOf(trust, "trust.ingress_trusts_signing_ca") == "true",
		// or a certificate of that CA was let in
		letIn && signing != "" && diag.Fingerprint(readModel(c, "node.cert_issuer_fingerprint")) == signing:
		return signing, signing
	}
	return signing, diag.Fingerprint(fieldOf(trust, "trust.ingress_ca"))
}

// foreignIssuer reports whether the terminal gateway does not know the CA of the node's certificate either: then the
// certificate is at fault, and not the trust of one listener.
func foreignIssuer(c *Case) bool {
	f, id := c.Fact(diag.HopNodeTerminalReachability, stepStream), c.Fact(diag.HopNodeRecoveryStatus, stepIdentity)
	if f == nil || f.Failure == diag.MTLSUnknownCA {
		return f != nil
	}
	return refusesCert(f) && id != nil && id.Cert != nil && unlisted(f, id.Cert.Leaf.Issuer)
}

// asProfiled reports whether the running agent uses the profile's endpoint. Then the server there is at fault, and not
// the node's settings.
func asProfiled(c *Case) bool {
	env, want := c.Fact(diag.HopNodeRecoveryStatus, stepProfile), c.expected("node_runtime_api_url")
	return env != nil && env.Env != nil && want != "" && sameEndpoint(env.Env.Values["GPUAAS_API_URL"], want)
}

func tokenRead(f *diag.Fact) bool {
	switch code(f) {
	case "invalid_token", "insufficient_scope", "token_expired", "token_revoked", "token_consumed":
		return true
	}
	return false
}

// edgeWithholds reports whether an edge alone explains f: it did not pass the certificate on, and nothing shows that it
// may distrust it.
func edgeWithholds(c *Case, f *diag.Fact) bool {
	id := c.Fact(diag.HopNodeRecoveryStatus, stepIdentity)
	return withheld(f) && !badOwnCert(c) && !foreignIssuer(c) &&
		(id == nil || id.Cert == nil || !unlisted(f, id.Cert.Leaf.Issuer))
}

// refusalReason returns the reason for a refusal because of the node's certificate; "" if the failure itself implies
// it. For an unknown CA, and a page of the edge, the walk knows more than the failure.
func refusalReason(c *Case, f *diag.Fact) diag.ReasonCode {
	switch {
	case f.Failure == diag.MTLSCertExpired, f.Failure == diag.MTLSCertNotYetValid,
		f.Failure == diag.MTLSUnknownCA && !foreignIssuer(c):
		return ""
	}
	return diag.ReasonIdentityRejectedRecoverable
}

// issued describes who issued the node's certificate, and which CAs the listener of f accepts.
func issued(c *Case, f *diag.Fact) string {
	id := c.Fact(diag.HopNodeRecoveryStatus, stepIdentity)
	if id == nil || id.Cert == nil {
		return ""
	}
	text := "; it was issued by " + id.Cert.Leaf.Issuer
	if f.TLS != nil && len(f.TLS.AcceptableCAs) > 0 {
		text += ", and certificates of " + clip(f.TLS.AcceptableCAs) + " are asked for"
	}
	if f.Failure == diag.MTLSCertExpired && id.Passed() {
		text += fmt.Sprintf(
			"; by the node's clock it is valid until %s: compare the ingress's clock, and the dates of its CA",
			id.Cert.Leaf.NotAfter.Format(time.RFC3339))
	}
	return text
}

// foreignAgent reports whether the agent's process runs without GPUAAS_API_URL, which gpuaas-agent needs to start: it
// is configured in another way, and these variables do not show what it talks to.
func foreignAgent(c *Case) bool {
	reach := c.Fact(diag.HopNodeRuntimeAPI, stepReach)
	return reach != nil && inPhase(reach, "env") && !notAllowed(reach) &&
		c.Fact(diag.HopNodeReadiness, stepProcess).Passed()
}

// deniesNode reports whether a refusal of the node's certificate is the platform's decision about this node. Such a
// decision holds at every listener and for every request, unless a listener looks for the session before it looks at
// the node: so what lets the node in counts only where nothing else of the platform says the same.
func deniesNode(c *Case, f *diag.Fact) bool { return platformDenies(f) && letIn(c, f) == "" }
