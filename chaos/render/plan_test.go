package render

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// TestPlan writes the plan of a recorded drill, one that would also be refused, for a pipe and as Markdown.
func TestPlan(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "golden", "drills", "three-faults.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var p *chaos.Plan
	for line := range bytes.Lines(text) {
		var e struct{ Plan *chaos.Plan }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if p == nil {
			p = e.Plan
		}
	}
	refusal := step.Refuse(step.RefusedLocked, "drill r7 is on it")
	p.Refused = []chaos.Refusal{{Machine: "n1", Fault: "fill", Refusal: *refusal}}
	golden(t, "plan.txt", string(page.Text(page.Layout{}, Plan(p)...)))
	golden(t, "plan.md", string(page.Markdown(Plan(p)...)))
}
