package preflight

import (
	"regexp"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// silenceWords are the words for a missing answer.
var silenceWords = regexp.MustCompile(`(does|did) not answer|(no|any) answer|timed out|silen|not heard|gave up`)

// TestAnErrorIsAnAnswer: where every answer of a walk came, nothing in its report says that one is missing.
func TestAnErrorIsAnAnswer(t *testing.T) {
	var steps []string
	for _, h := range chainOf(testEnv()).List() {
		for _, s := range h.Steps {
			steps = append(steps, hop.FactID(h.ID, s.Name))
		}
	}
	of := func(from string, do func(*diag.Fact)) answers {
		out := answers{}
		for _, id := range steps {
			out[id] = func(f *diag.Fact) {
				if f.Request.Op.Row().Ladder && f.Request.Op != diag.OpTCP && (from == "" || f.Vantage == from) {
					do(f)
				}
			}
		}
		return out
	}
	for name, do := range map[string]func(*diag.Fact){
		"HTTP 500 of the platform": refusal(500, "internal"), "HTTP 503 of the platform": refusal(503, "unavailable"),
		"an edge's 502": httpFails(diag.HTTPEdgePage, 502, "edge_error"),
	} {
		worlds := []answers{of("", do), of(hop.Operator, do), of(hop.Node, do)}
		for _, id := range steps {
			worlds = append(worlds, answers{id: of("", do)[id]})
		}
		for i, w := range worlds {
			r := walkWith(t, w)
			said := []string{r.Verdict.Because, blameOf(r).Text}
			for _, b := range r.Verdict.OtherFindings {
				said = append(said, b.Text)
			}
			for _, h := range r.Hops {
				said = append(said, h.Text, h.Because)
				for _, f := range h.Also {
					said = append(said, f.Text, f.Because)
				}
			}
			said = append(said, r.Verdict.Recovery...)
			slices.Sort(said)
			for _, s := range slices.Compact(said) {
				if silenceWords.MatchString(s) {
					t.Errorf("%s, world %d %v: %s", name, i, func() string {
						if i >= 3 {
							return steps[i-3]
						}
						return ""
					}(), s)
				}
			}
		}
	}
}
