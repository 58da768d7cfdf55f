package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

func planned() diag.Plan {
	plan := diag.Plan{Profile: "lab"}
	for _, s := range hopSeeds() {
		h := hopOf(s)
		row := diag.PlannedHop{ID: s.id, Vantages: strings.Split(h.Vantage, "+"), BudgetMS: s.budget, Steps: []string{}}
		for _, st := range s.steps {
			row.Steps = append(row.Steps, st.Name)
		}
		if s.id == diag.HopTerminalTokenMint {
			row.Skip = "no --allocation-id given"
		}
		if s.id == diag.HopNodeRecoveryStatus {
			row.Left = map[string]string{
				"task_wait": "this platform cannot be asked for a task without claiming it (mapping.peek: false)",
			}
		}
		plan.Hops = append(plan.Hops, row)
	}
	return plan
}

func infos() []HopInfo {
	var list []HopInfo
	for _, s := range hopSeeds() {
		h := hopOf(s)
		info := HopInfo{ID: s.id, Title: s.title, Layer: s.layer, Vantages: strings.Split(h.Vantage, "+"),
			BudgetMS: int64(s.budget)}
		for _, st := range s.steps {
			info.Steps = append(info.Steps, st.Name)
		}
		list = append(list, info)
	}
	return list
}

func TestPlanAndHops(t *testing.T) {
	subject := healthy().Subject
	for name, o := range map[string]Options{"pipe.txt": {}, "80.txt": {Width: 80}, "200.txt": {Width: 200},
		"wide.txt": {Format: Wide}} {
		var plan, hops bytes.Buffer
		if err := Plan(&plan, planned(), subject, o); err != nil {
			t.Fatal(err)
		}
		if err := Hops(&hops, infos(), o); err != nil {
			t.Fatal(err)
		}
		golden(t, "plan."+name, plan.String())
		golden(t, "hops."+name, hops.String())
		for _, line := range strings.Split(plan.String()+hops.String(), "\n") {
			if got := page.Width(line); o.Width > 0 && got > o.Width {
				t.Errorf("%d columns: %q", got, line)
			}
		}
	}
}
