package verdict

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// Decide returns the verdict on the judged hops, and the classification of all evidence. The blame is the first fault
// in chain order, and decides whom to call and what to do; see classify for the reason.
func Decide(chain []hop.Hop, hops []diag.HopResult, c *hop.Case) (diag.Verdict, *diag.Classification) {
	v, k, advise := decided(chain, hops, promote(hops, c), c)
	advise(&v, k.Reason)
	follow(&v, &k)
	v.Reason, v.UserState, v.Severity = k.Reason, k.UserState, string(k.Severity)
	return v, &k
}

// decided returns the verdict and the classification, and the advice that the verdict does not have yet.
func decided(chain []hop.Hop, hops []diag.HopResult, promoted promotions, c *hop.Case,
) (diag.Verdict, diag.Classification, advice) {
	v, advise := blameFor(chain, hops, promoted, c)
	k := reconciled(&v, evidenceOf(c, hops, &v))
	if addUnfoundReason(c, hops, &v, &k) {
		v, advise = blameFor(chain, hops, promoted, c)
		k = reconciled(&v, evidenceOf(c, hops, &v))
	}
	return v, k, advise
}

// advice adds the steps to a verdict. It needs the reason, which may rule steps out.
type advice func(*diag.Verdict, diag.ReasonCode)

// blameFor returns the verdict without reason and user state, and the advice for it.
func blameFor(chain []hop.Hop, hops []diag.HopResult, promoted promotions, c *hop.Case) (diag.Verdict, advice) {
	roots := rootsOf(chain, hops, promoted, c)
	v := diag.Verdict{Outcome: OutcomeOf(hops, c.EndedBy)}
	if v.Outcome == diag.OutcomeFail && !slices.ContainsFunc(roots, func(r root) bool { return !r.silent }) {
		v.Outcome = diag.OutcomeInconclusive // every failure may follow from an unanswered hop
	}
	unmeasured := ""
	if v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn {
		if unmeasured = world.NodeUnmeasured(hops, c); unmeasured != "" {
			v.Outcome = diag.OutcomeInconclusive
		}
	}
	if i := slices.IndexFunc(hops, failed); i >= 0 {
		v.FirstFailedHop = hops[i].ID
	}
	switch {
	case len(roots) > 0:
	case unmeasured != "":
		v.Because = unmeasured
		return v, func(v *diag.Verdict, _ diag.ReasonCode) { adviseOn(v, diag.LackMeasurement, c) }
	case v.Outcome == diag.OutcomeInconclusive:
		return v, func(v *diag.Verdict, _ diag.ReasonCode) { fillUndecided(v, hops, c) }
	default:
		return v, func(*diag.Verdict, diag.ReasonCode) {}
	}
	blame := roots[0]
	b := toBlame(chain, hops, blame, c)
	v.Blame = &diag.Blame{Hop: b.Hop, Status: b.Status, Signal: b.Signal, Failure: b.Failure, Text: b.Text}
	v.Symptoms, v.Confidence, v.Proof, v.Unproven = b.Symptoms, b.Confidence, b.Proof, b.Unproven
	v.Owner, v.Owners = b.Owner, b.Owners
	v.Observation = b.Observation
	v.Layer = blame.hop.Layer
	excluded := ruledOut(chain, hops, blame, c)
	v.RuledOut = slices.Grow(v.RuledOut, len(excluded))
	for _, e := range excluded {
		v.RuledOut = append(v.RuledOut, e.text)
	}
	for _, r := range roots[1:] {
		v.OtherFindings = append(v.OtherFindings, toBlame(chain, hops, r, c))
	}
	return v, func(v *diag.Verdict, reason diag.ReasonCode) {
		s := situation(hops, blame, excluded, c)
		s.Reason = reason
		fillFromTables(v, blame, s, c)
	}
}

// OutcomeOf is fail when anything failed, and pass only when everything that was planned was measured and is green.
func OutcomeOf(hops []diag.HopResult, endedBy diag.EndedBy) diag.Outcome {
	n := map[diag.Status]int{}
	for i := range hops {
		n[hops[i].Status]++
	}
	switch {
	case n[diag.StatusFail] > 0:
		return diag.OutcomeFail
	case n[diag.StatusInconclusive]+n[diag.StatusNotReached] > 0, endedBy != diag.EndedCompleted,
		n[diag.StatusPass]+n[diag.StatusWarn] == 0:
		return diag.OutcomeInconclusive
	case n[diag.StatusWarn] > 0:
		return diag.OutcomeWarn
	}
	return diag.OutcomePass
}

func toBlame(chain []hop.Hop, hops []diag.HopResult, r root, c *hop.Case) diag.Blame {
	f := r.finding
	b := diag.Blame{Hop: r.hop.ID, Signal: f.Signal, Failure: f.Failure, Text: f.Text, Symptoms: r.symptoms}
	if r.silent {
		b.Status = diag.StatusInconclusive
	}
	if row, ok := diag.LookupSignal(f.Signal); ok {
		b.Owners = row.OwnersOn(f.Side)
		b.Owner = b.Owners.String()
	}
	if check := c.Hop(r.hop.ID).Check; check != nil {
		b.Owner, b.Owners = check.Owner, diag.Owners{check.Owner}
	}
	support(chain, hops, &r, c, &b)
	return b
}

// fillFromTables adds the steps, the proof of repair and the runbook of the blame's signal, with this node's values.
func fillFromTables(v *diag.Verdict, r root, s diag.Situation, c *hop.Case) {
	row, known := diag.LookupSignal(r.finding.Signal)
	if !known {
		return
	}
	values := Placeholders(c)
	if len(r.finding.Evidence) > 0 {
		values = ofFact(c.FactByID(r.finding.Evidence[0]), values)
	}
	proof := row.Proof
	if check := c.Hop(r.hop.ID).Check; check != nil {
		proof.Hops = []diag.HopID{r.hop.ID}
		for _, next := range check.Steps { // as the profile has them: nothing is filled in
			v.Steps, v.Recovery = append(v.Steps, next), append(v.Recovery, next.Prose())
		}
	}
	steps := row.Steps(s)
	v.Steps, v.Recovery = slices.Grow(v.Steps, len(steps)), slices.Grow(v.Recovery, len(steps))
	for _, step := range steps {
		v.Advise(step, values)
	}
	v.RepairProof, _ = diag.FillCommand(verifies(proof, r, v, c).Command(), values)
	v.Runbook = row.Runbook(c.Expected("runbook_base"))
}
