package drill_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// TestInPlace: the time to detect begins when the machine made the step, not when it had checked the effect and
// its response arrived; and never before the request.
func TestInPlace(t *testing.T) {
	armed := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	at := func(ms int64) *time.Time { x := armed.Add(time.Duration(ms) * time.Millisecond); return &x }
	left := func(ms int64) *step.Millis { x := step.Millis(60_000 - ms); return &x }
	for name, tc := range map[string]struct {
		status *step.Status
		want   int64
	}{
		"4.1 s after arming, of which it was there for 3.9": {
			&step.Status{ArmedAt: &armed, TTLLeft: left(4100), Steps: []step.StepStatus{{ID: "s", DoneAt: at(200)}}}, 1100,
		},
		"the machine's clock was set meanwhile": {
			&step.Status{ArmedAt: &armed, TTLLeft: left(4100), Steps: []step.StepStatus{{ID: "s", DoneAt: at(-60_000)}}}, 1000,
		},
		"and the other way round": {
			&step.Status{ArmedAt: &armed, TTLLeft: left(4100), Steps: []step.StepStatus{{ID: "s", DoneAt: at(60_000)}}}, 5000,
		},
		"it is over already": {&step.Status{ArmedAt: &armed, Steps: []step.StepStatus{{ID: "s", DoneAt: at(200)}}},
			5000},
		"a machine's journal alone": {nil, 5000},
	} {
		s := drill.Fold([]drill.Event{
			{Kind: drill.Begun, Plan: &chaos.Plan{
				Budgets: chaos.Budgets{TTL: chaos.Duration(time.Minute)}, Schedule: []chaos.PlannedStep{{Machine: "n1", Step: "s"}},
				Targets: []chaos.PlannedMachine{{ID: "n1"}},
			}},
			{Kind: drill.Breaking, MS: 1000, Machine: "n1", Step: "s"},
			{Kind: drill.Broken, MS: 5000, Machine: "n1", Step: "s", Status: tc.status},
		})
		if ms, ok := s.InPlace(); !ok || ms != tc.want {
			t.Errorf("%s: in place at %d ms, %t, want %d", name, ms, ok, tc.want)
		}
	}
}
