package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Blame and reason are two answers: the first fault in chain order, and the most urgent reason by all evidence. This
// file keeps them consistent: a walk that passes has no reason that needs an operator, and a reason that is about
// another fault than the blame says so.

// addUnfoundReason fails a walk that passes if the platform's own state of the node or the workload gives a reason that
// needs an operator and that no hop found. The finding is added to the hop that read that state. It reports whether one
// was added.
func addUnfoundReason(c *Case, hops []diag.HopResult, v *diag.Verdict, k *diag.Classification) bool {
	if (v.Outcome != diag.OutcomePass && v.Outcome != diag.OutcomeWarn) || !k.NeedsSomebody() {
		return false
	}
	i := readBy(c, hops, k)
	if i < 0 {
		return false
	}
	h := &hops[i]
	f := diag.Finding{
		Status: diag.StatusFail, Signal: signalFor(k.Reason), Reason: k.Reason, Direct: true, Evidence: h.Evidence,
		Text: strings.Join(k.Because, "; ") + "; no hop of this walk found it",
	}
	if h.Status == diag.StatusWarn {
		h.Also = append([]diag.Finding{h.Finding}, h.Also...)
	}
	h.Finding = f
	return true
}

// readBy returns the index of the hop that read the evidence of a reason: the first of the reason's hops with a result,
// else the first of all hops with one; -1 if there is none.
func readBy(c *Case, hops []diag.HopResult, k *diag.Classification) int {
	row, _ := diag.LookupReason(k.Reason)
	first := diag.HopNodeHeartbeat
	if i := slices.IndexFunc(row.With, func(id diag.HopID) bool { return c.hop(id).ReadModel }); i >= 0 {
		first = row.With[i]
	}
	// the trust page shows it
	signing, ingress := trustedCAs(c)
	if k.Reason == diag.ReasonCertUntrustedByIngress && signing != "" && signing != ingress {
		first = diag.HopControlPlaneAccess
	}
	for _, id := range append([]diag.HopID{first}, row.With...) {
		if i := slices.IndexFunc(hops, func(h diag.HopResult) bool { return h.ID == id && hasResult(h.Status) }); i >= 0 {
			return i
		}
	}
	return slices.IndexFunc(hops, func(h diag.HopResult) bool { return hasResult(h.Status) })
}

// signalFor returns the signal for a reason that no hop found: the one for the node's own report, else the first one in
// the table with that reason, else a stale heartbeat.
func signalFor(code diag.ReasonCode) diag.Signal {
	if s := signalOfReason(code); s != diag.SigHeartbeatStale {
		return s
	}
	for _, row := range diag.Signals() {
		if row.Reason == code {
			return row.Signal
		}
	}
	return diag.SigHeartbeatStale
}

// reasonVersusBlame describes how a reason relates to a blame that is about something else, "" if both are about the
// same.
func reasonVersusBlame(v *diag.Verdict, k *diag.Classification) string {
	if v.Blame == nil || k.Reason == diag.ReasonNone {
		return ""
	}
	row, _ := diag.LookupReason(k.Reason)
	if slices.Contains(row.With, v.Blame.Hop) {
		return ""
	}
	blame := fmt.Sprintf("the blame is %s (%s)", v.Blame.Hop, v.Blame.Signal)
	if namedBy(k.Because[0]) == string(v.Blame.Hop) {
		return blame + "; this reason is of the same finding"
	}
	for _, b := range v.OtherFindings {
		if slices.Contains(row.With, b.Hop) {
			return fmt.Sprintf("%s; this reason is a different fault, at %s, and more urgent", blame, b.Hop)
		}
	}
	for _, s := range v.Symptoms {
		if slices.Contains(row.With, s) {
			return fmt.Sprintf("%s, and %s fails with it; this reason explains both", blame, s)
		}
	}
	return fmt.Sprintf("%s; this reason is a different fault, named by %s", blame, namedBy(k.Because[0]))
}

// namedBy returns the source that names a reason, by the head of its evidence.
func namedBy(line string) string {
	for _, s := range [...]struct{ head, who string }{
		{"host record", "the node's own record"}, {"read model", "the platform's read model"},
		{"checklist", "the recovery points"},
	} {
		if strings.HasPrefix(line, s.head) {
			return s.who
		}
	}
	who, _, _ := strings.Cut(line, ":")
	return who
}
