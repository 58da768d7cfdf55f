package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// short writes one line, never cut: outcome, node, blame and owner, or what there was. Lists and pipes read it.
func (p *page) short(r *diag.Report) {
	v := &r.Verdict
	st := OutcomeStatus(v.Outcome)
	p.put(st.Symbol()+" "+Clean(string(v.Outcome)), StatusStyle(st))
	parts := []string{subject(&r.Subject)}
	switch {
	case v.Blame != nil:
		parts = append(parts, string(v.Blame.Hop), string(v.Blame.Signal))
		if v.Confidence != "" {
			parts = append(parts, string(v.Confidence))
		}
		parts = append(parts, v.Owner)
		if n := len(v.OtherFindings); n > 0 {
			parts = append(parts, fmt.Sprintf("and %d more", n))
		}
	case v.Outcome == diag.OutcomeInconclusive:
		parts = append(parts, undecided(r))
		if v.Owner != "" {
			parts = append(parts, v.Owner)
		}
	default:
		parts = append(parts, passed(r))
	}
	if how := r.Run.EndedBy; how != diag.EndedCompleted && how != "" {
		parts = append(parts, "ended by "+string(how))
	}
	if changed := diffShort(r.Diff); changed != "" {
		parts = append(parts, changed)
	}
	parts = append(parts, r.Run.DurationMS.Words())
	p.put("  "+Clean(strings.Join(parts, "  ")), Plain)
	p.newline()
}

func subject(s *diag.Subject) string {
	for _, id := range []string{s.NodeID, s.NodeHost, s.AllocationID} {
		if id != "" {
			return id
		}
	}
	return "-"
}

// undecided says what kept a walk from deciding: the verdict's own words, or the first hop that was not decided.
func undecided(r *diag.Report) string {
	if r.Verdict.Because != "" {
		return r.Verdict.Because
	}
	for i := range r.Hops {
		switch h := &r.Hops[i]; h.Status {
		case diag.StatusInconclusive, diag.StatusNotReached:
			return string(h.ID) + ": " + said(&h.Finding)
		}
	}
	return "nothing was measured"
}

func passed(r *diag.Report) string {
	n, warned := 0, ""
	for i := range r.Hops {
		switch h := &r.Hops[i]; h.Status {
		case diag.StatusPass:
			n++
		case diag.StatusWarn:
			if warned == "" {
				warned = string(h.ID) + ": " + said(&h.Finding)
			}
		}
	}
	if warned != "" {
		return warned
	}
	return fmt.Sprintf("%d of %d hops passed", n, len(r.Hops))
}
