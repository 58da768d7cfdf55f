package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestObservedInEveryFormat: each format has the word, and each but the one of one line the measured cause of the
// blame; those that have everything, of a further finding too.
func TestObservedInEveryFormat(t *testing.T) {
	for _, format := range Formats {
		r := threeFaults()
		r.Verdict.Confidence, r.Verdict.Proof = diag.Observed, nil
		r.Verdict.Observation = &diag.Observation{Fact: "node_readiness/disk", Field: "errno", Text: "a write gives ENOSPC"}
		r.Verdict.OtherFindings[0].Confidence = diag.Observed
		r.Verdict.OtherFindings[0].Observation = &diag.Observation{Fact: "x/y", Field: "unit.active",
			Text: "systemd calls it inactive"}
		var out bytes.Buffer
		if err := Report(&out, r, Options{Format: format, Width: 100}); err != nil {
			t.Fatal(err)
		}
		want := []string{"observed", "a write gives ENOSPC", "systemd calls it inactive"}
		switch format {
		case Short:
			want = want[:1]
		case Table, Wide: // a further finding is one line there
			want = want[:2]
		}
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s has no %q:\n%s", format, w, out.String())
			}
		}
	}
}
