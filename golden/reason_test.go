package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// walks returns all recorded walks, or some, judged by today's rules, by name.
func walks(t *testing.T) map[string]*diag.Report {
	t.Helper()
	files, err := filepath.Glob("[rm]*/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	out := map[string]*diag.Report{}
	for _, name := range some(files) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r := &diag.Report{}
		if err := json.Unmarshal(data, r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r, err = verdict.Replay(hops.BuiltIn(), r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = r
	}
	return out
}

// cut returns the report that --only would have made: the other hops are skipped, without facts.
func cut(r *diag.Report, only ...diag.HopID) *diag.Report {
	out := *r
	out.Plan.Hops, out.Facts = slices.Clone(r.Plan.Hops), nil
	for i := range out.Plan.Hops {
		if h := &out.Plan.Hops[i]; !slices.Contains(only, h.ID) {
			h.Skip = "left out"
		}
	}
	for i := range r.Facts {
		if id, _, _ := strings.Cut(r.Facts[i].ID, "/"); slices.Contains(only, diag.HopID(id)) {
			out.Facts = append(out.Facts, r.Facts[i])
		}
	}
	verdict.Judge(hops.BuiltIn(), &out)
	return &out
}

// agrees describes a contradiction between a walk's blame, outcome and reason; "" if they are consistent.
func agrees(r *diag.Report) string {
	v, k := &r.Verdict, r.Classification
	row, ok := diag.LookupReason(k.Reason)
	switch passing := v.Outcome == diag.OutcomePass || v.Outcome == diag.OutcomeWarn; {
	case !ok:
		return "no reason"
	case v.Reason != k.Reason:
		return "the verdict's reason is " + string(v.Reason)
	case passing && k.NeedsSomebody():
		return "the walk passes, and the reason needs somebody"
	case v.Blame == nil || k.Reason == diag.ReasonNone || slices.Contains(row.With, v.Blame.Hop):
		return ""
	case !strings.Contains(k.Beside, string(v.Blame.Hop)):
		return "the reason is about something else than " + string(v.Blame.Hop) + ", and nothing says so"
	}
	return ""
}

// TestBlameAndReasonAreOneStory: for every recording, complete and reduced to every hop and every pair of hops,
// reason and blame name the same cause, or the reason explains the blame. A passing walk has no reason that needs an
// action.
func TestBlameAndReasonAreOneStory(t *testing.T) {
	for name, r := range walks(t) {
		if why := agrees(r); why != "" {
			t.Errorf("%s: %s, blame %v: %s", name, r.Classification.Reason, r.Verdict.Blame, why)
		}
		for i, a := range diag.HopIDs() {
			for _, b := range diag.HopIDs()[i:] {
				part := cut(r, a, b)
				if why := agrees(part); why != "" {
					t.Errorf("%s, %s and %s alone: %s because %q, blame %v: %s", name, a, b, part.Classification.Reason,
						part.Classification.Because, part.Verdict.Blame, why)
				}
				if name == "reports/healthy.json" && part.Verdict.Outcome != diag.OutcomePass &&
					part.Verdict.Outcome != diag.OutcomeInconclusive {
					t.Errorf("%s, %s and %s alone: %s %v", name, a, b, part.Verdict.Outcome, part.Verdict.Blame)
				}
			}
		}
	}
}
