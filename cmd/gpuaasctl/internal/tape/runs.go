package tape

import (
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Runs are the tapes: a stop that passes, packets that vanish, and three faults of which one is found late and one
// machine has a conflict at the end.
func Runs() [][]Moment { return [][]Moment{stopped(), blocked(), three()} }

func stopped() []Moment {
	p := plan("agent-stopped", 0, machine(chaos.RoleNode, node,
		step.Step{ID: "stop", Fault: "service-stop", Tier: step.TierBoot, Title: "gpuaas-node-agent.service stopped"}))
	r := &recorder{}
	r.before(p)
	r.injure(p, nil)
	r.look(drill.During, drill.LookInjected, node, 200)
	r.look(drill.During, drill.LookControl, "", 90)
	r.walk(drill.During, red{
		{diag.HopNodeReadiness, diag.Finding{Status: diag.StatusFail, Signal: diag.SigProcessDown,
			Failure: diag.UnitInactive}},
		{diag.HopNodeTaskRoundtrip, diag.Finding{Status: diag.StatusNotReached}},
	})
	r.restore(p, nil)
	r.green(p)
	r.end(p)
	return r.moments
}

func blocked() []Moment {
	p := plan("api-egress-blocked", 1, machine(chaos.RoleNode, node,
		step.Step{ID: "block", Fault: "net-block", Tier: step.TierKernel,
			Title: "drop what goes to node-api.gpuaas.test, port 443"}))
	r := &recorder{}
	r.before(p)
	r.injure(p, nil)
	r.look(drill.During, drill.LookControl, "", 40)
	r.walk(drill.During, nil)
	r.after(300 * time.Millisecond)
	r.look(drill.During, drill.LookInjected, node, 2040)
	r.walk(drill.During, nil)
	r.after(300 * time.Millisecond)
	r.after(1500 * time.Millisecond)
	r.renew(p)
	r.walk(drill.During, unreachable())
	r.restore(p, nil)
	r.walk(drill.After, red{{diag.HopNodeHeartbeat,
		diag.Finding{Status: diag.StatusFail, Signal: diag.SigHeartbeatStale}}})
	r.after(300 * time.Millisecond)
	r.green(p)
	r.end(p)
	return r.moments
}

func unreachable() red {
	return red{
		{diag.HopNodeRuntimeAPI, diag.Finding{Status: diag.StatusFail, Signal: diag.SigAPIUnreachable,
			Failure: diag.TCPTimeout}},
		{diag.HopNodeTaskRoundtrip, diag.Finding{Status: diag.StatusNotReached}},
		{diag.HopTerminalOpenTask, diag.Finding{Status: diag.StatusNotReached}},
	}
}

func three() []Moment {
	p := plan("three-faults", 2,
		machine(chaos.RoleNode, node,
			step.Step{ID: "fill", Fault: "disk", Tier: step.TierWatchdog, Title: "the disk of /var/lib/gpuaas/diag is full"},
			step.Step{ID: "stop", Fault: "service-stop", Tier: step.TierBoot, Title: "gpuaas-node-agent.service stopped"}),
		machine(chaos.RolePlatform, platform,
			step.Step{ID: "route", Fault: "config", Tier: step.TierBoot, Title: "/etc/nginx/edge.d/term.conf is changed for " +
				"nginx.service"}))
	r := &recorder{}
	r.before(p)
	r.injure(p, map[string]time.Duration{"stop": 2 * time.Second})
	r.look(drill.During, drill.LookInjected, node, 120)
	r.look(drill.During, drill.LookControl, "", 60)
	full := red{
		{diag.HopNodeReadiness, diag.Finding{Status: diag.StatusFail, Signal: diag.SigDiskFull, Failure: diag.DiskFull}},
		{diag.HopTerminalPublicRoute, diag.Finding{Status: diag.StatusFail, Signal: diag.SigPublicRouteMissing,
			Failure: diag.HTTPStatus}},
	}
	r.walk(drill.During, full)
	for range 4 {
		r.after(4 * time.Second)
		r.renew(p)
	}
	r.tell(drill.Event{Kind: drill.Trouble, Machine: platform, Text: "renew the lease: ssh: connection lost"})
	r.walk(drill.During, full)
	r.after(28 * time.Second)
	r.renew(p)
	r.walk(drill.During, full,
		diag.Blame{Hop: diag.HopNodeReadiness, Signal: diag.SigProcessDown, Failure: diag.UnitInactive},
		diag.Blame{Hop: diag.HopTerminalPublicRoute, Signal: diag.SigPublicRouteMissing})
	r.restore(p, map[string]string{platform: "/etc/nginx/edge.d/term.conf: somebody else changed it since"})
	r.green(p)
	r.end(p)
	return r.moments
}

// before is a run up to where something may be broken.
func (r *recorder) before(p chaos.Plan) {
	r.tell(drill.Event{Kind: drill.Begun, Plan: &p})
	r.walk(drill.Before, nil)
	r.after(50 * time.Millisecond)
	r.tell(drill.Event{Kind: drill.Looked, Seen: &drill.Seen{Name: drill.LookControl, Stage: drill.Before, Held: true,
		TookMS: 45}})
	r.after(50 * time.Millisecond)
	r.tell(drill.Event{Kind: drill.Looked, Machine: node, Seen: &drill.Seen{Name: drill.LookInjected, Stage: drill.Before,
		Why: "exit code 0", TookMS: 95}})
	for i := range p.Targets {
		r.tell(drill.Event{Kind: drill.Arming, Machine: p.Targets[i].ID})
	}
	for i := range p.Targets {
		r.after(350 * time.Millisecond)
		t := &p.Targets[i]
		r.tell(drill.Event{Kind: drill.Armed, Machine: t.ID,
			Status: r.status(t, step.Planned, step.PhaseArmed, p.Budgets.TTL.Std()), TookUS: 41_000})
	}
}

// injure makes every step; late has the steps that come later, and when.
func (r *recorder) injure(p chaos.Plan, late map[string]time.Duration) {
	for i := range p.Targets {
		t := &p.Targets[i]
		for _, s := range t.Drill.Steps {
			r.after(late[s.ID])
			r.tell(drill.Event{Kind: drill.Breaking, Machine: t.ID, Step: s.ID})
			r.after(180 * time.Millisecond)
			r.tell(drill.Event{Kind: drill.Broken, Machine: t.ID, Step: s.ID, TookUS: 12_000})
			r.tell(drill.Event{Kind: drill.Renewed, Machine: t.ID, Status: r.status(t, step.Done, step.PhaseArmed, r.left(p))})
		}
	}
}

// left is what is left of the plan's time, armed about a walk ago.
func (r *recorder) left(p chaos.Plan) time.Duration { return p.Budgets.TTL.Std() - r.at + time.Second }

func (r *recorder) renew(p chaos.Plan) {
	for i := range p.Targets {
		t := &p.Targets[i]
		r.tell(drill.Event{Kind: drill.Renewed, Machine: t.ID, Status: r.status(t, step.Done, step.PhaseArmed, r.left(p))})
	}
}

func (r *recorder) look(stage drill.Stage, name, machine string, took diag.Millis) {
	r.after(50 * time.Millisecond)
	r.tell(drill.Event{Kind: drill.Looked, Machine: machine, Seen: &drill.Seen{Name: name, Stage: stage, Held: true,
		TookMS: took}})
	if name == drill.LookInjected { // what proves the repair does not hold then
		r.tell(drill.Event{Kind: drill.Looked, Machine: machine,
			Seen: &drill.Seen{Name: drill.LookProof, Stage: stage, Why: "exit code 7", TookMS: took}})
	}
}

// restore reverts everything; conflicts has the machines on which that fails, and why.
func (r *recorder) restore(p chaos.Plan, conflicts map[string]string) {
	for i := range p.Targets {
		r.tell(drill.Event{Kind: drill.Reverting, Machine: p.Targets[i].ID})
	}
	for i := range p.Targets {
		t := &p.Targets[i]
		r.after(400 * time.Millisecond)
		st := r.status(t, step.Reverted, step.PhaseOver, 0)
		if text := conflicts[t.ID]; text != "" {
			st = r.status(t, step.Conflict, step.PhaseOver, 0)
			place, why, _ := strings.Cut(text, ": ")
			st.Steps[0].Changes = []step.ChangeStatus{{Place: place, State: step.Conflict, Text: why}}
		}
		r.tell(drill.Event{Kind: drill.Reverted, Machine: t.ID, Status: st, TookUS: 31_400})
	}
}

// green is the chain that becomes green, with the proof before it.
func (r *recorder) green(p chaos.Plan) {
	r.after(600 * time.Millisecond)
	r.look(drill.After, drill.LookProof, node, 610)
	for range p.Scenario.Recovery.Green {
		r.walk(drill.After, nil)
	}
}

// end compares and clears up.
func (r *recorder) end(p chaos.Plan) {
	for i := range p.Targets {
		t := &p.Targets[i]
		clean := true
		var found []step.Residue
		var as []step.StepStatus
		for _, part := range r.story.Machines {
			if part.ID == t.ID && part.State == step.Conflict {
				as = part.Steps
				clean, found = false, []step.Residue{{Class: step.ClassFile, Key: "/etc/nginx/edge.d/term.conf",
					Before: "sha256 1f", After: "sha256 9c"}}
			}
		}
		r.after(300 * time.Millisecond)
		r.tell(drill.Event{Kind: drill.Compared, Machine: t.ID, Clean: &clean, Residue: found})
		r.after(200 * time.Millisecond)
		st := r.status(t, step.Reverted, step.PhaseClosed, 0)
		if !clean {
			st.State, st.Steps = step.Conflict, as
		}
		r.tell(drill.Event{Kind: drill.Closed, Machine: t.ID, Status: st})
	}
	r.after(500 * time.Millisecond)
	r.tell(drill.Event{Kind: drill.Ended})
}
