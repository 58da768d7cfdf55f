package drill_test

import (
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

func seconds(n int) chaos.Duration { return chaos.Duration(time.Duration(n) * time.Second) }

// planOf returns a drill with a step on each machine, alternating between block and disk.
func planOf(ids ...string) chaos.Plan {
	look := func(name, tool string) chaos.PlannedProbe {
		return chaos.PlannedProbe{From: chaos.RoleOperator,
			Check: step.Check{Name: name, Exec: step.Exec{Argv: []string{tool}}, Within: 3000}}
	}
	p := chaos.Plan{
		Run: runID, Hash: "h", Node: "n1",
		Scenario: chaos.Scenario{
			Metadata: chaos.Metadata{ID: "s", Title: "a drill of tests", Severity: "P1", Owner: "nobody", Runbook: "none"},
			Expect: chaos.Expect{
				Blame: chaos.Blame{
					Finding: chaos.Finding{Hop: []diag.HopID{diag.HopNodeRuntimeAPI}, Signal: []diag.Signal{diag.SigAPIUnreachable}},
				},
				FirstFailedHop:    []diag.HopID{diag.HopNodeRuntimeAPI},
				MustStayGreen:     chaos.StayGreen{Hops: []diag.HopID{diag.HopControlPlaneAccess}},
				SameCorrelationID: true,
			},
			Recovery: chaos.Recovery{Green: 2},
		},
		Injected: look(drill.ProbeInjected, "sees"), Control: look(drill.ProbeControl, "works"),
		Proof: look(drill.ProbeProof, "repaired"),
		Budgets: chaos.Budgets{TTL: seconds(90), Lease: seconds(20), InjectWithin: seconds(3), DetectWithin: seconds(10),
			RecoverWithin: seconds(20)},
	}
	for i, id := range ids {
		name := []string{"block", "disk"}[i]
		c := step.Change{File: &step.File{Path: "/run/" + name, Text: "x"}}
		p.Targets = append(p.Targets,
			chaos.PlannedMachine{Role: chaos.RoleNode, ID: id, Host: id, Tier: c.Tier(), Drill: step.Drill{
				Schema: step.Schema, Run: runID, Scenario: "s", Node: id, By: "me", At: time.Unix(1, 0).UTC(), TTL: 90_000,
				Lease: 20_000, Steps: []step.Step{{ID: name, Fault: "file", Tier: c.Tier(), Changes: []step.Change{c}}},
			}})
		p.Schedule = append(p.Schedule, chaos.PlannedStep{At: seconds(i), Machine: id, Step: name})
	}
	if len(ids) > 1 {
		p.Scenario.Expect.Others = []chaos.Finding{
			{Hop: []diag.HopID{diag.HopNodeReadiness}, Signal: []diag.Signal{diag.SigDiskFull}},
		}
	}
	return p
}

// quiet returns the same drill with the expectation that nothing is blamed.
func quiet(ids ...string) chaos.Plan {
	p := planOf(ids...)
	p.Scenario.Expect = chaos.Expect{Blame: chaos.Blame{None: true}}
	return p
}
