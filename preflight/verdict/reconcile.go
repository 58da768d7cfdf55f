package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// Blame and reason are two answers: the first fault in chain order, and the most urgent reason by all evidence. This
// file keeps them consistent: a walk that passes has no reason that needs an operator, a reason that is about another
// fault than the blame says so, and there is one owner and one next step, which are the verdict's.

// Classify returns the classification of a judged report with the entries of a record that it may lack, as the report
// itself has it: with the owner, the next step and the user state of its verdict.
func Classify(chain *hop.Chain, r *diag.Report, record []*diag.RecordEntry) diag.Classification {
	e := EvidenceOf(chain, r)
	if e.Record == nil {
		e.Record = record
	}
	k := reconciled(&r.Verdict, e)
	follow(&r.Verdict, &k)
	return k
}

// reconciled returns the classification of all evidence.
//
// The reason is the most urgent one that the evidence allows if it explains the blame, if it is P0, or if the walk
// found its fault beside the blame, which remains when the blame is repaired. Otherwise it is only remembered, or a
// warning, and the reason is the blame's own. Beside a separate fault that is not P0, users are shown the blame's own
// reason.
func reconciled(v *diag.Verdict, e classify.Evidence) diag.Classification {
	k := classify.Classify(e)
	how, is := reasonVersusBlame(v, &k)
	k.Beside = how
	if is == explains {
		return k
	}
	blamed := blamedReason(v, &e)
	row, _ := diag.LookupReason(k.Reason)
	if is == remembered && blamed != "" && row.Severity != diag.P0 {
		e.Blamed = blamed
		if own := classify.Classify(e); own.Reason == blamed { // else something hides it
			own.Rule = ruleOf(&k, how)
			own.Beside, _ = reasonVersusBlame(v, &own)
			return own
		}
	}
	k.Rule = ruleOf(&k, how)
	if blamed != "" && row.Severity != diag.P0 {
		k.Show(diag.ForUser(blamed, e.Seen()))
	}
	return k
}

// follow makes the verdict's owner and next steps those of the classification. A reason whose own row has another owner
// stays beside them as a rule.
func follow(v *diag.Verdict, k *diag.Classification) {
	if v.Owner == "" {
		return
	}
	if k.Reason != diag.ReasonNone && k.Rule == nil && k.Owner != v.Owner {
		k.Rule = ruleOf(k, cmp.Or(k.Beside, sameReason(v, k)))
	}
	k.Owner, k.Owners = v.Owner, v.Owners
	if len(v.Steps) == 0 {
		return
	}
	k.Steps = v.Steps
	texts := make([]string, len(v.Steps))
	for i := range v.Steps {
		texts[i] = v.Steps[i].Text
	}
	k.Next = strings.Join(texts, "; ")
}

func ruleOf(k *diag.Classification, because string) *diag.Rule {
	return &diag.Rule{Reason: k.Reason, Owner: k.Owner, Owners: k.Owners, Next: k.Next, Because: because}
}

// sameReason explains why the owner of a reason that fits the verdict is not the verdict's.
func sameReason(v *diag.Verdict, k *diag.Classification) string {
	if v.Blame == nil {
		return "no hop is to blame: what the walk lacked has to be supplied first"
	}
	if diag.ReasonFor(v.Blame.Signal, v.Blame.Failure) == k.Reason {
		return fmt.Sprintf("%s is a narrower cause, which has an owner of its own", v.Blame.Signal)
	}
	return fmt.Sprintf("the blame is %s (%s), and its owner acts first", v.Blame.Hop, v.Blame.Signal)
}

// blamedReason returns the reason of the finding that is to blame, "" if it has none.
func blamedReason(v *diag.Verdict, e *classify.Evidence) diag.ReasonCode {
	for _, p := range e.Probes {
		if b := v.Blame; b != nil && p.Hop == b.Hop && p.Signal == b.Signal && p.Text == b.Text {
			if code := cmp.Or(p.Reason, diag.ReasonFor(p.Signal, p.Failure)); code != diag.ReasonNone {
				return code
			}
		}
	}
	return ""
}

// addUnfoundReason fails a walk that passes if the platform's own state of the node or the workload gives a reason that
// needs an operator and that no hop found. The finding is added to the hop that read that state. It reports whether one
// was added.
func addUnfoundReason(c *hop.Case, hops []diag.HopResult, v *diag.Verdict, k *diag.Classification) bool {
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
	row, _ := diag.LookupReason(k.Reason)
	out := slices.IndexFunc(row.With, func(id diag.HopID) bool { return hop.OptedOut(c.Planned(id)) })
	if out >= 0 && observe(c, &f) == nil { // that hop may refute the state
		f.Status, f.Text, f.Because = diag.StatusInconclusive, "", fmt.Sprintf("%s; %s, which measures it, was left out",
			strings.Join(k.Because, "; "), row.With[out])
	}
	if h.Status == diag.StatusWarn {
		h.Also = append([]diag.Finding{h.Finding}, h.Also...)
	}
	h.Finding = f
	return true
}

// readBy returns the index of the hop that read the evidence of a reason: the first of the reason's hops with a result,
// else the first of all hops with one; -1 if there is none.
func readBy(c *hop.Case, hops []diag.HopResult, k *diag.Classification) int {
	row, _ := diag.LookupReason(k.Reason)
	first := diag.HopNodeHeartbeat
	if i := slices.IndexFunc(row.With, func(id diag.HopID) bool { return c.Hop(id).ReadModel }); i >= 0 {
		first = row.With[i]
	}
	// the trust page shows it
	signing, ingress := world.TrustedCAs(c)
	if k.Reason == diag.ReasonCertUntrustedByIngress && signing != "" && signing != ingress {
		first = diag.HopControlPlaneAccess
	}
	for _, id := range append([]diag.HopID{first}, row.With...) {
		if i := slices.IndexFunc(hops, func(h diag.HopResult) bool {
			return h.ID == id &&
				reading.HasResult(h.Status)
		}); i >= 0 {
			return i
		}
	}
	return slices.IndexFunc(hops, func(h diag.HopResult) bool { return reading.HasResult(h.Status) })
}

// signalFor returns the signal for a reason that no hop found: the one for the node's own report, else the first one in
// the table with that reason, else a stale heartbeat.
func signalFor(code diag.ReasonCode) diag.Signal {
	if s := world.SignalOfReason(code); s != diag.SigHeartbeatStale {
		return s
	}
	for _, row := range diag.Signals() {
		if row.Reason == code {
			return row.Signal
		}
	}
	return diag.SigHeartbeatStale
}

// relation is how a reason relates to a blame.
type relation int

const (
	explains   relation = iota // the reason explains the blame
	separate                   // the walk found the reason's fault, beside the blame
	remembered                 // only other sources than the findings name it, or a warning
)

// reasonVersusBlame describes how a reason relates to a blame that is about something else, "" if both are about the
// same.
func reasonVersusBlame(v *diag.Verdict, k *diag.Classification) (string, relation) {
	if v.Blame == nil || k.Reason == diag.ReasonNone {
		return "", explains
	}
	row, _ := diag.LookupReason(k.Reason)
	if slices.Contains(row.With, v.Blame.Hop) {
		return "", explains
	}
	blame := fmt.Sprintf("the blame is %s (%s)", v.Blame.Hop, v.Blame.Signal)
	if slices.ContainsFunc(k.Because, func(line string) bool { return namedBy(line) == string(v.Blame.Hop) }) {
		return blame + "; this reason is of the same finding", explains
	}
	for _, b := range v.OtherFindings {
		if slices.Contains(row.With, b.Hop) {
			return fmt.Sprintf("%s; this reason is a different fault, at %s, and more urgent", blame, b.Hop), separate
		}
	}
	for _, s := range v.Symptoms {
		if slices.Contains(row.With, s) {
			return fmt.Sprintf("%s, and %s fails with it; this reason explains both", blame, s), explains
		}
	}
	return fmt.Sprintf("%s; this reason is a different fault, named by %s", blame, namedBy(k.Because[0])), remembered
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
