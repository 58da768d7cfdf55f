package render

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// shortLine is one line for lists and pipes, never truncated: outcome, node, blame and owner, or what was found.
func shortLine(r *diag.Report) page.Line {
	return page.Line{
		page.Marked(OutcomeStatus(r.Verdict.Outcome), string(r.Verdict.Outcome)),
		{Text: "  " + strings.Join(verdictParts(r, false), "  ")},
	}
}

// verdictParts returns the parts of the line after the outcome. On a page, the blame is the hop with its number, and
// parts that are elsewhere on the page are omitted.
func verdictParts(r *diag.Report, onPage bool) []string {
	v := &r.Verdict
	parts := []string{subject(&r.Subject)}
	switch {
	case v.Blame != nil && onPage:
		parts = append(parts, number(r.Hops, v.Blame.Hop)+" "+string(v.Blame.Hop), v.Owner)
	case v.Blame != nil:
		parts = append(parts, string(v.Blame.Hop), string(v.Blame.Signal))
		if v.Confidence != "" {
			parts = append(parts, string(v.Confidence))
		}
		parts = append(parts, v.Owner)
		if n := len(v.OtherFindings); n > 0 {
			parts = append(parts, fmt.Sprintf("and %d more", n))
		}
	case v.Outcome == diag.OutcomeInconclusive && onPage:
		parts = append(parts, v.Owner)
	case v.Outcome == diag.OutcomeInconclusive:
		parts = append(parts, undecided(r), v.Owner)
	default:
		parts = append(parts, passed(r))
	}
	if how := r.Run.EndedBy; how != diag.EndedCompleted && how != "" {
		parts = append(parts, "ended by "+string(how))
	}
	if !onPage {
		if r.Plan.InsecureHTTP {
			parts = append(parts, "insecure_http")
		}
		parts = append(parts, diffShort(r.Diff))
	}
	parts = append(parts, r.Run.DurationMS.Words())
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

func subject(s *diag.Subject) string {
	for _, id := range []string{s.NodeID, s.NodeHost, s.AllocationID} {
		if id != "" {
			return id
		}
	}
	return "-"
}

// undecided explains why a walk decided nothing: in the verdict's words, or by the first hop that is not decided.
func undecided(r *diag.Report) string {
	if r.Verdict.Because != "" {
		return r.Verdict.Because
	}
	for i := range r.Hops {
		switch h := &r.Hops[i]; h.Status {
		case diag.StatusInconclusive, diag.StatusNotReached:
			return string(h.ID) + ": " + findingText(&h.Finding)
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
				warned = string(h.ID) + ": " + findingText(&h.Finding)
			}
		}
	}
	if warned != "" {
		return warned
	}
	return fmt.Sprintf("%d of %d hops passed", n, len(r.Hops))
}
