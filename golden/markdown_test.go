package golden

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag/render"
)

// TestMarkdownBeginsWithTheAnswer: a page, before it is unfolded, shows outcome, blame, owner and next steps in fifteen
// lines; everything else is folded.
func TestMarkdownBeginsWithTheAnswer(t *testing.T) {
	for name, r := range walks(t) {
		text := walked(t, r, render.Options{Format: render.Markdown})
		first, _, folded := strings.Cut(text, "<details>")
		if n := strings.Count(strings.TrimSpace(first), "\n") + 1; n > 15 || !folded {
			t.Errorf("%s: %d lines before the first fold:\n%s", name, n, first)
		}
		v := &r.Verdict
		want := []string{" " + string(v.Outcome) + ": "}
		if v.Owner != "" {
			want = append(want, "**owner**: ")
		}
		if len(v.Recovery) > 0 {
			want = append(want, "**Next**", "\n1. ")
		}
		if v.Blame != nil {
			want = append(want, "**blame**: ", string(v.Blame.Hop))
		}
		for _, w := range want {
			if !strings.Contains(first, w) {
				t.Errorf("%s has no %q before the first fold:\n%s", name, w, first)
			}
		}
	}
}
