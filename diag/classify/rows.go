package classify

import (
	"cmp"
	"fmt"
	"github.com/gpuaas/gpuaasctl/diag"
	"net"
	"slices"
	"strings"
)

// Longer than 300 lines: a table: the rules of the reasons, in their order of precedence.

// rule is one row of the classifier: a reason and the evidence for it. Every row also holds where a hop's finding, the
// node's own record, or the platform's classification names the reason.
type rule struct {
	code diag.ReasonCode
	also func(v *view) []string // further evidence, one line each; nil: none
	// unless explains why the row does not hold despite its evidence; "" when it holds.
	unless func(v *view) string
}

// rules has a row for every reason except ReasonNone, in the order of reasonRows. A new reason needs a row there and
// here.
var rules = [...]rule{
	{code: diag.ReasonClonedIdentity, also: cloned},
	{code: diag.ReasonIdentityRevokedOrFenced, also: revoked},
	{code: diag.ReasonDiskFull},
	{code: diag.ReasonClockSkew},
	{code: diag.ReasonCertUntrustedByIngress, also: issuerUntrusted},
	{code: diag.ReasonEndpointProfileDrift, also: drifted},
	{code: diag.ReasonServerTLSUntrusted},
	{code: diag.ReasonRecoveryEnrollmentBlocked, also: enrollmentBlocked},
	{code: diag.ReasonCertExpired, also: certExpired, unless: withoutToken},
	{code: diag.ReasonIdentityRejectedRecoverable, also: rejected, unless: badWithoutToken},
	{code: diag.ReasonRecoveryTokenMissing, also: tokenNeeded},
	{code: diag.ReasonEdgeRateLimited},
	{code: diag.ReasonControlPlaneUnreachable},
	{code: diag.ReasonIPRouteDrift, also: addressMoved, unless: ofItsLastHeartbeat},
	{code: diag.ReasonAgentDown},
	{code: diag.ReasonAgentVersionDrift, also: versionDiffers, unless: withoutAgent},
	{code: diag.ReasonTaskResultPostFailed},
	{code: diag.ReasonDispatchedResultLost, also: resultsLost},
	{code: diag.ReasonTaskBacklogStale, also: backlogStale, unless: whileSilent},
	{code: diag.ReasonOpsAccessUnhealthy, also: guestAgentDown, unless: whileSilent},
	{code: diag.ReasonTerminalGatewayDown},
	{code: diag.ReasonTerminalStreamCut},
	{code: diag.ReasonTerminalEndpointDrift},
	{code: diag.ReasonTerminalStartupFailed},
	{code: diag.ReasonAppRuntimeFailed, also: appStopped, unless: whileWorkloadRuns},
	{code: diag.ReasonAppRouteFailed},
	{code: diag.ReasonAppCredentialFailing, also: credentialBad},
	{code: diag.ReasonReleaseCleanupStuck, also: cleanupStuck},
	{code: diag.ReasonGPUUnhealthy},
	{code: diag.ReasonGPUDegraded},
	{code: diag.ReasonAppObservationStale, also: observationStale, unless: whileSilent},
	{code: diag.ReasonNodeAgentUnreachable, also: silent},
}

// view is the evidence, with the values derived from it that the rows share.
type view struct {
	*Evidence
	speaks []observed // probes that failed or warn
	points [len(diag.Points)]diag.CheckPoint
	record recorded
	token  TokenState
}

// observed is a hop's finding with its operator reason.
type observed struct {
	*Probed
	of diag.ReasonCode
}

func viewOf(e *Evidence) *view {
	v := &view{Evidence: e, points: checklist(e), token: e.Token}
	for i := range e.Probes {
		if p := &e.Probes[i]; p.failing() {
			v.speaks = append(v.speaks, observed{p, p.reason()})
		}
	}
	v.record = readRecord(e, v.points)
	if v.record.gone || len(v.denied("token_expired", "token_consumed")) > 0 {
		v.token = TokenGone // the platform decides whether a token is valid, and the node knows which one it has
	}
	return v
}

// named returns the evidence that names the reason itself: hops, the node's record, the platform's classification.
func (v *view) named(code diag.ReasonCode) []string {
	lines := v.record.lines(code)
	for _, p := range v.speaks {
		// a cloned identity is not a symptom of another failure
		if p.of == code && (p.By == "" || code == diag.ReasonClonedIdentity) {
			lines = append(lines, string(p.Hop)+": "+p.Text)
		}
	}
	if v.Node != nil && v.Node.Reason == code && v.Node.Overtaken == "" {
		lines = append(lines, "read model: the platform classifies the node as "+string(code))
	}
	return lines
}

// denied returns refusals with one of the codes, by listeners that may know the node's identity.
func (v *view) denied(codes ...string) []string {
	var lines []string
	for _, d := range v.Denials {
		if slices.Contains(codes, d.Code) && (d.Asked == nil || *d.Asked) {
			lines = append(lines, fmt.Sprintf("%s: the node is denied: %s", d.Source, orUntyped(d.Code)))
		}
	}
	if v.Node != nil && slices.Contains(codes, v.Node.Identity) && v.Node.Identity != "" {
		lines = append(lines, "read model: the node's identity is "+v.Node.Identity)
	}
	return lines
}

func orUntyped(code string) string {
	return cmp.Or(code, "no code")
}

func cloned(v *view) []string {
	lines := v.denied("cloned")
	if v.Node != nil && v.Node.Posture == quarantined && v.Node.Identity != accepted {
		lines = append(lines, "read model: the agent is quarantined")
	}
	return lines
}

// Values of NodeEvidence that the classifier knows. A node sends heartbeats while quarantined; an accepted heartbeat
// ends the quarantine.
const (
	quarantined = "quarantined" // a Posture
	accepted    = "accepted"    // an Identity
)

func revoked(v *view) []string { return v.denied("revoked", "fenced", "retired") }

func issuerUntrusted(v *view) []string {
	if p := v.point(diag.PointIssuer); p.Status == diag.MarkFail {
		return []string{"checklist: " + p.Text}
	}
	return nil
}

func drifted(v *view) []string {
	lines := v.denied("profile_mismatch")
	for _, d := range v.Denials {
		if d.Asked != nil && !*d.Asked {
			lines = append(lines, fmt.Sprintf("%s: denied (%s) by a listener that did not ask for the node's certificate",
				d.Source, orUntyped(d.Code)))
		}
	}
	if v.Node != nil && v.Node.EndpointDrift != "" {
		lines = append(lines, "read model: "+v.Node.EndpointDrift)
	}
	return lines
}

func enrollmentBlocked(v *view) []string {
	return append(v.denied("token_expired", "token_consumed"), v.record.blocked...)
}

func certExpired(v *view) []string {
	lines := v.denied("expired")
	if n := v.Node; n != nil && n.CertExpired != nil && *n.CertExpired &&
		v.point(diag.PointHeartbeat).Status != diag.MarkPass &&
		!v.recentContact() {
		lines = append(lines, "read model: the node's certificate is past its date, and no heartbeat is current")
	}
	return lines
}

func rejected(v *view) []string { return v.denied("not_node_bound", "") }

// badWithoutToken is withoutToken, except for a certificate known to be valid, which needs no token.
func badWithoutToken(v *view) string {
	if v.CertGood {
		return ""
	}
	return withoutToken(v)
}

// withoutToken explains that the reason is part of a missing recovery token: the node needs a new certificate and has
// no token to get one, so it cannot recover by itself.
func withoutToken(v *view) string {
	if v.token == TokenGone {
		return "part of " + string(diag.ReasonRecoveryTokenMissing) + ": there is no current token to recover with"
	}
	return ""
}

func tokenNeeded(v *view) []string {
	if v.token != TokenGone {
		return nil
	}
	lines := append(v.named(diag.ReasonCertExpired), certExpired(v)...)
	if !v.CertGood {
		lines = append(append(lines, v.named(diag.ReasonIdentityRejectedRecoverable)...), rejected(v)...)
	}
	if len(lines) > 0 {
		lines = append(lines, "the node has no current recovery token")
	}
	return lines
}

// addressMoved compares the platform's address of the node with the addresses that the node reports; both must be
// known. It ignores loopback addresses, and the public address of a node that has only private ones, which is that of
// its NAT.
func addressMoved(v *view) []string {
	n := v.Node
	if n != nil && translated(n.Address, n.Addresses) {
		return nil
	}
	if n == nil || net.ParseIP(n.Address) == nil || net.ParseIP(n.Address).IsLoopback() || len(n.Addresses) == 0 ||
		slices.Contains(n.Addresses, n.Address) {
		return nil
	}
	moved := slices.Clone(n.Addresses)
	slices.Sort(moved)
	return []string{fmt.Sprintf("read model: the platform has the node as %s, and reports %s", n.Address, moved[0])}
}

// translated reports whether the known address may be the NAT address of a node with these addresses.
func translated(known string, addresses []string) bool {
	at := net.ParseIP(known)
	return at != nil && !at.IsPrivate() && !slices.ContainsFunc(addresses, func(a string) bool {
		ip := net.ParseIP(a)
		return ip == nil || !ip.IsPrivate()
	})
}

// SameVersion reports whether two versions are equal, ignoring a leading "v".
func SameVersion(a, b string) bool { return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") }

func versionDiffers(v *view) []string {
	n := v.Node
	if n == nil || n.Version == "" || n.DesiredVersion == "" || SameVersion(n.Version, n.DesiredVersion) {
		return nil
	}
	return []string{fmt.Sprintf("read model: the agent is %s, and %s is wanted", n.Version, n.DesiredVersion)}
}

// withoutAgent marks version drift as a symptom if the agent never reported: it then has no version.
func withoutAgent(v *view) string {
	if v.Node != nil && v.Node.NeverHeard {
		return "a symptom: the node's agent was never heard"
	}
	return ofItsLastHeartbeat(v)
}

// ofItsLastHeartbeat explains that a value reported in an accepted heartbeat is not why the platform lost contact.
func ofItsLastHeartbeat(v *view) string {
	if v.contactLost() && !slices.ContainsFunc(v.Probes, func(p Probed) bool {
		return p.Hop != diag.HopNodeRecoveryStatus && p.failing() && p.By == "" && p.reason() == diag.ReasonAgentVersionDrift
	}) {
		return "as of its last heartbeat, which was accepted: so this is not why contact was lost"
	}
	return ""
}

func resultsLost(v *view) []string {
	if v.Node == nil || v.Node.LostResults == nil || *v.Node.LostResults == 0 {
		return nil
	}
	return []string{fmt.Sprintf("read model: %d dispatched tasks have no result and no node that works on them",
		*v.Node.LostResults)}
}

func backlogStale(v *view) []string {
	if p := v.point(diag.PointBacklog); p.Status == diag.MarkFail {
		return []string{"read model: " + p.Text}
	}
	return nil
}

// GuestAgentGone reports whether a provider's status of the guest agent means that it does not run.
func GuestAgentGone(status string) bool {
	return status == "down" || status == "stopped" || status == "unreachable"
}

func guestAgentDown(v *view) []string {
	if v.Node == nil || !GuestAgentGone(v.Node.GuestAgent) {
		return nil
	}
	return []string{"read model: the provider says that the guest agent is " + v.Node.GuestAgent}
}

// whileSilent marks the reason as a symptom while the node is silent: more than this may be broken.
func whileSilent(v *view) string {
	switch {
	case v.contactLost():
		return "a symptom: the node's agent is not heard"
	case v.cutOff():
		return "a symptom: SSH does not answer, and no task is claimed"
	}
	return ""
}

// cutOff reports whether the machine does not answer at all: SSH is silent and a task stays unclaimed, whatever older
// evidence says.
func (v *view) cutOff() bool {
	failing := func(hop diag.HopID, is func(*Probed) bool) bool {
		return slices.ContainsFunc(
			v.Probes,
			func(p Probed) bool { return p.Hop == hop && p.Status == diag.StatusFail && is(&p) },
		)
	}
	return failing(diag.HopNodeOpsAccess, func(p *Probed) bool { return p.Failure.Silent() }) &&
		failing(diag.HopNodeTaskRoundtrip, func(p *Probed) bool { return p.reason() == diag.ReasonNodeAgentUnreachable })
}

// silent holds where the platform has lost contact with the agent. It is the last row, so every more specific reason
// wins.
func silent(v *view) []string {
	if p := v.point(diag.PointHeartbeat); v.contactLost() {
		return []string{"read model: " + p.Text}
	}
	return nil
}
