package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestObservedInEveryFormat: every format has the word, and all but the one-line format have the measured cause of the
// blame. Those that show everything have it for further findings as well.
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
		case Table, Wide: // these formats have one line for a further finding
			want = want[:2]
		}
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s has no %q:\n%s", format, w, out.String())
			}
		}
	}
}
