package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// surveyRounds bounds how often a machine is asked: an answer may raise one more question, and that one none.
const surveyRounds = 3

// survey reads what a plan must know: the platform's word on the allocation, the operator's tools, and every machine, all
// at once. It writes nothing anywhere. A machine that cannot be asked is in the facts as such.
func (j *job) survey(ctx context.Context, s *chaos.Scenario, on chaos.Subject, machines []chaos.Machine) (chaos.Facts, error) {
	facts := chaos.Facts{Now: time.Now().UTC().Truncate(time.Second), Operator: operatorName(), Machines: machines, Tools: operatorTools(s)}
	if on.Allocation != "" {
		a, err := j.allocation(ctx)
		if err != nil {
			return facts, err
		}
		facts.Allocation = a
	}
	var wg sync.WaitGroup
	for i := range machines {
		wg.Go(func() {
			if err := j.surveyMachine(ctx, s, on, facts.Allocation, &machines[i]); err != nil {
				machines[i].Error = err.Error()
			}
		})
	}
	wg.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		return facts, ctx.Err()
	}
	return facts, nil
}

// unasked is the refusal of a plan for which not everything could be asked.
func unasked(err error) []chaos.Refusal {
	return []chaos.Refusal{{Refusal: *step.Refuse(chaos.RefusedUnreachable, "%v", err)}}
}

// surveyMachine asks one machine until it has answered everything.
func (j *job) surveyMachine(ctx context.Context, s *chaos.Scenario, on chaos.Subject, a *chaos.Allocation, m *chaos.Machine) error {
	node := vantage.NewNode(j.machineConfig(*m))
	defer closeAll(ctx, map[string]preflight.Vantage{preflight.Node: node})
	for range surveyRounds {
		q := s.Ask(j.Env.Profile, on, a, *m)
		if q.None() && !m.Now.IsZero() {
			return nil
		}
		args := chaos.SurveyArgs(q)
		said, err := node.Run(ctx, vantage.Script{Text: chaos.SurveyScript, Args: args})
		if err != nil {
			return fmt.Errorf("cannot be asked: %w", err)
		}
		if err := m.Learn(args, said); err != nil {
			return err
		}
	}
	return nil
}

// machineConfig says how to get to a machine of a drill, for scripts alone: nothing is put there.
func (j *job) machineConfig(m chaos.Machine) vantage.NodeConfig {
	c := vantage.NodeConfig{ID: m.ID, Host: m.Host, SSH: j.Env.Profile.SSHOf(m.ID), Agent: j.Env.Profile.Agent, Bare: true}
	if m.Role == chaos.RolePlatform {
		c.SSH = j.Env.Profile.PlatformSSH
	}
	if j.profileArg != "" {
		c.TrustArgs = []string{"--profile", j.profileArg}
	}
	return c
}

// operatorTools are the paths of the programs that the drill runs here.
func operatorTools(s *chaos.Scenario) map[string]string {
	tools := map[string]string{}
	for _, p := range [...]chaos.Probe{s.VerifyInjected.Probe, s.VerifyInjected.Control, s.Recovery.Proof} {
		if p.From == chaos.RoleOperator {
			if path, err := exec.LookPath(p.Probe[0]); err == nil {
				tools[p.Probe[0]] = path
			}
		}
	}
	return tools
}

// allocation is the platform's word on the allocation, by the walk's own question.
func (j *job) allocation(ctx context.Context) (*chaos.Allocation, error) {
	plan := preflight.NewPlan(j.Env.Profile, j.Env.Subject, preflight.Options{
		Only: []diag.HopID{diag.HopControlPlaneAccess, diag.HopAllocationBinding}, Token: !j.Env.Token.IsZero(),
	})
	place := j.vantages()
	defer closeAll(ctx, place)
	facts, ended := preflight.Walk(ctx, &j.Env, plan, place, nil)
	for _, f := range facts {
		if f.HTTP == nil || f.HTTP.Fields["allocation.os_user"] == "" {
			continue
		}
		v := f.HTTP.Fields
		return &chaos.Allocation{
			ID: j.Env.Subject.AllocationID, State: v["allocation.state"], NodeID: v["allocation.node_id"], OSUser: v["allocation.os_user"],
			AppUnit: v["allocation.app_unit"], AppPort: v["allocation.app_port"], AppURL: v["allocation.app_product_url"],
		}, nil
	}
	r := &diag.Report{Subject: j.Env.Subject, Plan: plan, Facts: facts, Run: diag.Run{EndedBy: ended}}
	preflight.Judge(r)
	var why []string
	for _, h := range r.Hops {
		if h.Status != diag.StatusPass && h.Status != diag.StatusSkipped && h.Text != "" {
			why = append(why, h.Text)
		}
	}
	return nil, fmt.Errorf("allocation %s cannot be read: %s", j.Env.Subject.AllocationID, strings.Join(append(why, "nothing is known of it")[:1], ""))
}
