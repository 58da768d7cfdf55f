package golden

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/scenarios"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// pages are the drills whose whole page is compared: one with a packet filter, one that restarts a unit and renews a
// certificate, one that only the node's own record explains. For all others drills.txt has the fields.
var pages = []string{"api-egress-blocked", "cert-rotated-live", "node-cert-expired-recovers"}

// TestRecordedDrills folds every drill's recorded events again. The run was made with the current file of the drill,
// and every claim held that this
// environment can hold.
func TestRecordedDrills(t *testing.T) {
	var fields strings.Builder
	all, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Run(s.Metadata.ID, func(t *testing.T) {
			d := replayed(t, s)
			if d.Verdict.Word != drill.Pass {
				t.Errorf("%s: %s", d.Verdict.Word, d.Verdict.Text)
			}
			for _, c := range d.Claims {
				if s := c.Outcome(); s != drill.Held && s != drill.NotApplicable {
					t.Errorf("%s: %s %s", c.Title, s, c.Text)
				}
			}
			fields.WriteString(DrillFields(d) + "\n")
			if slices.Contains(pages, s.Metadata.ID) {
				page(t, filepath.Join("drills", s.Metadata.ID+".txt"), d)
			}
		})
	}
	goldentest.Check(t, "drills.txt", fields.String())
}

// replayed folds the recorded events of a drill.
func replayed(t *testing.T, s chaos.Scenario) drill.Drill {
	t.Helper()
	f, err := os.Open(filepath.Join("drills", s.Metadata.ID+".ndjson"))
	if err != nil {
		t.Fatalf("%v: record it on a lab, see README.md", err)
	}
	defer func() { _ = f.Close() }()
	events, torn, err := drill.ReadEvents(f)
	if err != nil || torn {
		t.Fatalf("torn %t, %v", torn, err)
	}
	story := drill.Fold(events)
	recorded, file := story.Plan.Scenario, s
	recorded.Metadata.Title, file.Metadata.Title = "", "" // titles do not affect what is done
	if a, b := asJSON(t, recorded), asJSON(t, file); a != b {
		t.Errorf("the drill's file has changed since the run was recorded: record it again\nthen %s\nnow  %s", a, b)
	}
	return story.Drill()
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// page compares the drill's page with the golden file.
func page(t *testing.T, path string, d drill.Drill) {
	t.Helper()
	r := drill.Report{Head: diag.NewHead(drill.ReportKind), EndedBy: diag.EndedCompleted, Drills: []drill.Drill{d}}
	r.SetVerdict()
	var out bytes.Buffer
	if err := drillrender.Report(&out, &r, render.Options{Format: render.Full, Width: 100}); err != nil {
		t.Fatal(err)
	}
	goldentest.Check(t, path, out.String())
}
