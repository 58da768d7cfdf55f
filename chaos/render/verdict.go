package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Status returns the status whose symbol and style a verdict has: a drill that was interrupted, or got no verdict
// for another reason, is inconclusive. So is an unknown word.
func Status(w drill.Word) diag.Status {
	switch w {
	case drill.Pass:
		return diag.StatusPass
	case drill.Late, drill.Collateral, drill.WrongHop, drill.NotDetected, drill.NotInjected, drill.RevertedEarly,
		drill.NoRecovery, drill.Residue:
		return diag.StatusFail
	}
	return diag.StatusInconclusive
}

// word returns a verdict as symbol and word.
func word(w drill.Word) page.Cell { return page.Marked(Status(w), orWord(w, "no verdict")) }

// ClaimStatus returns the status whose symbol and style a claim has.
func ClaimStatus(s drill.State) diag.Status {
	switch s {
	case drill.Held:
		return diag.StatusPass
	case drill.Violated:
		return diag.StatusFail
	case drill.NotApplicable:
		return diag.StatusSkipped
	}
	return diag.StatusInconclusive
}

// stateWords returns a claim's state for people.
func stateWords(s drill.State) string { return strings.ReplaceAll(string(s), "_", " ") }

// StepStatus returns the status whose symbol and style a step or a change of a machine has: reverted passes, a change
// that was not made is neutral, a conflict or a failed revert fails, and a change that is still in place is
// inconclusive. A change that was reverted by something other than this drill warns, since it needs a check.
func StepStatus(s step.State) diag.Status {
	return cmp.Or(map[step.State]diag.Status{
		step.Reverted: diag.StatusPass,
		step.Lost:     diag.StatusWarn,
		step.Planned:  diag.StatusSkipped,
		"":            diag.StatusSkipped,
		step.Conflict: diag.StatusFail,
		step.Failed:   diag.StatusFail,
	}[s], diag.StatusInconclusive)
}

// counts returns the number of drills with each verdict, the best first.
func counts(r *drill.Report) string {
	n := map[drill.Word]int{}
	for i := range r.Drills {
		n[r.Drills[i].Verdict.Word]++
	}
	parts := []string{page.Count(len(r.Drills), "drill")}
	for _, w := range append(drill.Words(), "") {
		if n[w] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[w], strings.Fields(word(w).Text)[1]))
		}
	}
	if len(r.NotRun) > 0 {
		parts = append(parts, fmt.Sprintf("%d not run", len(r.NotRun)))
	}
	return strings.Join(parts, " · ")
}

// ended describes how a run that did not complete ended, "" for one that did.
func ended(r *drill.Report) string {
	switch r.EndedBy {
	case diag.EndedCompleted:
		return ""
	case diag.EndedInterrupted:
		return "interrupted: this report is partial"
	case diag.EndedError:
		return "the tool broke off: this report is partial"
	}
	return "how it ended is not known: this report is partial"
}

// insecure is the note about walks whose profile has insecure_http: true; "" if there is none.
func insecure(r *drill.Report) string {
	var plan diag.Plan
	for i := range r.Drills {
		plan.InsecureHTTP = plan.InsecureHTTP || slices.ContainsFunc(r.Drills[i].Walks, func(w drill.WalkView) bool {
			return w.InsecureHTTP
		})
	}
	return plan.Insecure()
}

// limits adds what the reader of any verdict must know: that the report is partial, and that its profile is insecure.
func (s *sheet) limits(r *drill.Report) {
	s.Field("partial", ended(r), page.Unsure)
	s.Field("insecure", insecure(r), page.Unsure)
}

// remedy returns the next step after a drill that left a machine or the chain changed; "" if it did not.
func remedy(r *drill.Report, d *drill.Drill) (text, command string) {
	of := func(words ...string) string {
		if r.Profile != "" {
			words = append(words, "--profile", r.Profile)
		}
		return diag.Command(append([]string{"gpuaasctl"}, words...)...)
	}
	switch {
	case d.Open():
		return "look at the machines:", of("chaos", "status")
	case d.Verdict.Word == drill.Residue:
		return "restore what is listed as left above, then search for leftovers:", of("chaos", "residue")
	case d.Verdict.Word == drill.NoRecovery && d.Node != "" && d.Allocation != "":
		return "walk again, to see what is not green:", of("preflight", d.Node, d.Allocation)
	case d.Verdict.Word == drill.NoRecovery && d.Node != "":
		return "walk again, to see what is not green:", of("preflight", d.Node)
	}
	return "", ""
}
