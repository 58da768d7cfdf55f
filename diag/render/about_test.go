package render

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// TestAboutRecordedWalks: for every hop of every recorded walk, no section is empty, lines fit, a proof has exactly one
// mark, and each command has its number.
func TestAboutRecordedWalks(t *testing.T) {
	paths, err := filepath.Glob("../../golden/reports/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	proofs := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var r diag.Report
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		for _, width := range []int{45, 120} {
			o := Options{Width: width}
			all := [][]Section{AboutWalk(&r, o)}
			for i := range r.Hops {
				all = append(all, AboutHop(&r, i, o))
			}
			for i, sections := range all {
				for _, part := range sections {
					text := string(page.Text(o.Layout(), part.Blocks...))
					if strings.TrimSpace(text) == "" {
						t.Errorf("%s, item %d, %s: nothing", name, i, part.Title)
					}
					for line := range strings.Lines(text) {
						line = strings.TrimRight(line, "\n")
						if page.Width(line) > width && !strings.Contains(text, "$ ") { // a command is not broken within a word
							t.Errorf("%s, item %d, %s: %d columns of %d: %q", name, i, part.Title, page.Width(line), width, line)
						}
					}
					if pr := r.Verdict.Proof; i == 0 && part.Title == "proof" && pr != nil && pr.Changed != diag.ChangedNothing {
						if proofs++; strings.Count(text, differs) != 1 || !strings.Contains(text, differs+pr.Changed+" (") {
							t.Errorf("%s: the input %s is not the only one with a mark:\n%s", name, pr.Changed, text)
						}
					}
					if i == 0 && part.Title == "next" {
						if n := len(Commands(&r.Verdict)); strings.Count(text, "$ ") < n || strings.Count(text, "[") < n {
							t.Errorf("%s: %d commands:\n%s", name, n, text)
						}
					}
				}
			}
		}
	}
	if proofs == 0 {
		t.Error("no recorded walk has a proof: this test looks at nothing")
	}
}

// TestAWaterfallIsToScale: a bar begins and ends when its probe did, and its fill shows the vantage without colour.
func TestAWaterfallIsToScale(t *testing.T) {
	for _, tc := range []struct {
		b    bar
		want string
	}{
		{bar{vantage: operator, from: 0, to: 50}, "█████"},
		{bar{vantage: node, from: 50, to: 100}, "     ▒▒▒▒▒"},
		{bar{vantage: node, from: 99, to: 99}, "         ▒"},
		{bar{vantage: node, from: 100, to: 100}, "         ▒"},
		{bar{vantage: "platform", from: 0, to: 100}, "··········"},
	} {
		if got := tc.b.draw(0, 100, 10); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.b, got, tc.want)
		}
	}
}
