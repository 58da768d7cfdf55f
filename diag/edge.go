package diag

import "strings"

// MissingFromEdge describes what a node's request lacked when it reached the platform, by the error code of the
// refusal. The edge that terminates the node's TLS adds the client certificate and a secret of its own to each
// request. The result is "" for any other code. The codes are the reference platform's; other platforms do not use
// them.
func MissingFromEdge(code string) string {
	return map[string]string{
		"client_certificate_required": "the platform behind it saw no certificate",
		"ingress_required":            "the platform behind it does not recognize the request as its ingress's",
	}[code]
}

// DenialReason returns the operator's reason for one of the contract's codes of a denied node, and whether code is one;
// the reason is "" where the failure itself implies it.
func DenialReason(code string) (reason ReasonCode, denied bool) {
	switch strings.TrimPrefix(code, "node_") {
	case "revoked", "fenced", "retired":
		return ReasonIdentityRevokedOrFenced, true
	case "expired":
		return ReasonCertExpired, true
	case "profile_mismatch":
		return ReasonEndpointProfileDrift, true
	case "not_node_bound", "cloned", "source_unproven":
		return "", true
	}
	return "", false
}

// ByEdge reports whether an entry's refusal shows an edge at fault: it did not pass on what the node sent, or refused
// by itself. A 401 or 403 is the platform's only with a code of the contract.
func (n *RecordEntry) ByEdge() bool {
	_, denied := DenialReason(n.Code)
	return MissingFromEdge(n.Code) != "" || n.Reason == RecEdgeRateLimited ||
		((n.Status == 401 || n.Status == 403) && !denied)
}
