package verdict

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// EvidenceOf returns all evidence that a judged report has for the classifier. It depends on the report's facts and
// findings alone.
func EvidenceOf(chain *hop.Chain, r *diag.Report) classify.Evidence {
	return evidenceOf(chain.CaseOf(r), r.Hops, &r.Verdict)
}

// explainedBy returns the hop that explains a failing finding of hop, "" if the finding is a fault itself.
func explainedBy(v *diag.Verdict, hop diag.HopID, f *diag.Finding) diag.HopID {
	var by diag.HopID
	for _, b := range faults(v) {
		if b.Hop == hop && b.Signal == f.Signal && b.Text == f.Text {
			return ""
		}
		if by == "" && slices.Contains(b.Symptoms, hop) {
			by = b.Hop
		}
	}
	return by
}

// faults returns the blame and the other findings.
func faults(v *diag.Verdict) []diag.Blame {
	if v.Blame == nil {
		return nil
	}
	first := *v.Blame
	first.Symptoms = v.Symptoms
	return append([]diag.Blame{first}, v.OtherFindings...)
}

// evidenceOf returns the evidence of a case whose hops were judged.
func evidenceOf(c *hop.Case, hops []diag.HopResult, v *diag.Verdict) classify.Evidence {
	e := world.HostEvidence(c)
	e.Points = world.Points(c, hops)
	e.Probes = probed(c, hops, v)
	if b := v.Blame; b != nil && b.Status == diag.StatusInconclusive && b.Signal == diag.SigControlPlaneUnreachable {
		// The reason must name the control plane, as the blame does, and not a symptom of its silence.
		e.Probes = append(e.Probes,
			classify.Probed{Hop: b.Hop, Status: diag.StatusFail, Signal: b.Signal, Failure: b.Failure, Text: b.Text})
	}
	e.App = world.AppEvidence(c)
	signing, ingress := world.TrustedCAs(c)
	e.Trust = &classify.TrustEvidence{SigningCA: signing, IngressCA: ingress}
	e.Denials = world.Denials(c)
	e.Passed = v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn
	e.CertGood = world.CertGood(c)
	return e
}

// probed lists the hops that passed, and the failures and warnings of the others with the hop that explains them.
func probed(c *hop.Case, hops []diag.HopResult, v *diag.Verdict) []classify.Probed {
	out := make([]classify.Probed, 0, len(hops))
	for i := range hops {
		h := &hops[i]
		if h.Status == diag.StatusPass || (h.Status == diag.StatusWarn && h.Signal == "") { // works, with a warning
			out = append(out, classify.Probed{Hop: h.ID, Status: diag.StatusPass})
			continue
		}
		for f := range FindingsOf(h) {
			if f.Status != diag.StatusFail && f.Status != diag.StatusWarn {
				continue
			}
			p := classify.Probed{
				Hop:     h.ID,
				Status:  f.Status,
				Signal:  f.Signal,
				Failure: f.Failure,
				Reason:  f.Reason,
				Text:    f.Text,
			}
			if f.Status == diag.StatusFail {
				p.By = explainedBy(v, h.ID, f)
			}
			if hop := c.Hop(h.ID); hop.NotOfNode != nil && hop.NotOfNode(c) {
				p.Reason = diag.ReasonNone
			}
			out = append(out, p)
		}
	}
	return out
}
