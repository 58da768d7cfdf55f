package render

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// TestAboutRecordedDrills: in every recorded drill, a claim shows when it holds, a step its changes, a probe its
// result, and each command its number.
func TestAboutRecordedDrills(t *testing.T) {
	paths, err := filepath.Glob("../../golden/drills/*.ndjson")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		events, _, err := drill.ReadEvents(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		story := drill.Fold(events)
		r := &drill.Report{Profile: "lab", Drills: []drill.Drill{story.Drill()}}
		d := &r.Drills[0]
		text := func(blocks []page.Block) string { return string(page.Text(page.Layout{Width: 60}, blocks...)) }
		for i := range d.Claims {
			found := text(AboutClaim(d, i)[0].Blocks)
			if !strings.Contains(found, d.Claims[i].Title) || !strings.Contains(found, "holds when") {
				t.Errorf("%s: claim %s: %s", path, d.Claims[i].ID, found)
			}
		}
		for i := range d.Machines {
			for k := range d.Machines[i].Steps {
				s := AboutStep(&d.Machines[i], k)
				place := d.Machines[i].Steps[k].Changes[0].Place // cut by the page's width
				if changes := text(s[1].Blocks); !strings.Contains(changes, place[:min(8, len(place))]) {
					t.Errorf("%s: step %s: %s", path, d.Machines[i].Steps[k].ID, changes)
				}
			}
		}
		next := text(AboutDrill(r, d, "", 60)[4].Blocks)
		if n := len(Commands(r, d, "")); n == 0 || strings.Count(next, "$ ") != n || strings.Count(next, "[") != n {
			t.Errorf("%s: %d commands: %s", path, n, next)
		}
		for i := range events {
			if line, bad := EventLine(&events[i], &story); line == "" || (bad && d.Verdict.Word == drill.Pass) {
				t.Errorf("%s: event %d: %q, bad: %v", path, events[i].Seq, line, bad)
			}
		}
	}
}

// TestAboutAWalkOfAnotherProfile: a hop that is not in the catalogue is shown behind the others, with its own number.
func TestAboutAWalkOfAnotherProfile(t *testing.T) {
	w := &drill.WalkView{Hops: map[diag.HopID]diag.Status{"x.vpn": diag.StatusFail, usualHops()[0]: diag.StatusPass}}
	d := &drill.Drill{Observed: &drill.WalkView{Blame: &diag.Blame{Hop: "x.vpn"},
		Hops: map[diag.HopID]diag.Status{"x.vpn": diag.StatusFail, "x.api": diag.StatusPass}}}
	want := fmt.Sprintf("%d x.vpn", len(usualHops())+2)
	if text := string(page.Text(page.Layout{}, answer(&drill.Report{}, d, "", false)...)); !strings.Contains(text, want) {
		t.Errorf("%q is not in\n%s", want, text)
	}
	for _, s := range AboutWalkView(w, "") {
		want := fmt.Sprintf("%d x.vpn", len(usualHops())+1)
		text := string(page.Text(page.Layout{Width: 60}, s.Blocks...))
		if s.Title == "hops" && !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
