package ops

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// surveyRounds bounds the rounds of questions to a machine: an answer may require one more question, whose answer
// requires none.
const surveyRounds = 3

// survey reads what a plan needs: the allocation according to the platform, the operator's tools, and every machine,
// all concurrently. It writes nothing anywhere. The facts show which machines could not be read.
func (d *Drill) survey(ctx context.Context) (chaos.Facts, error) {
	facts := chaos.Facts{
		Now: time.Now().UTC().Truncate(time.Second), Operator: d.Session.site.By, Machines: slices.Clone(d.Machines),
		Tools: operatorTools(&d.Scenario),
	}
	if d.Subject.Allocation != "" {
		a, err := d.Session.allocation(ctx)
		if err != nil {
			return facts, err
		}
		facts.Allocation = a
	}
	AtOnce(len(facts.Machines), 0, func(i int) {
		if err := d.surveyMachine(ctx, facts.Allocation, &facts.Machines[i]); err != nil {
			facts.Machines[i].Error = err.Error()
		}
	})
	if errors.Is(ctx.Err(), context.Canceled) {
		return facts, ctx.Err()
	}
	return facts, nil
}

// unasked is the refusal of a plan for which not everything could be read.
func unasked(err error) []chaos.Refusal {
	return []chaos.Refusal{{Refusal: *step.Refuse(chaos.RefusedUnreachable, "%v", err)}}
}

// surveyMachine reads one machine until every question is answered.
func (d *Drill) surveyMachine(ctx context.Context, a *chaos.Allocation, m *chaos.Machine) error {
	site := d.Session.site
	node := vantage.NewNode(site.machineConfig(*m))
	defer places{hop.Node: node}.close(ctx)
	for range surveyRounds {
		q := d.Scenario.Ask(site.Profile, d.Subject, a, *m)
		if q.None() && !m.Now.IsZero() {
			return nil
		}
		args := chaos.SurveyArgs(q)
		said, err := node.Run(ctx, vantage.Script{Text: chaos.SurveyScript, Args: args})
		if err != nil {
			return fmt.Errorf("cannot be asked: %w", err)
		}
		if err := m.ParseSurvey(args, said); err != nil {
			return err
		}
	}
	return nil
}

// machineConfig returns the login to a machine of a drill, for scripts only: nothing is installed there.
func (s *Site) machineConfig(m chaos.Machine) vantage.NodeConfig {
	c := vantage.NodeConfig{ID: m.ID, Host: m.Host, SSH: s.Profile.SSHOf(m.ID), Agent: s.Profile.Agent, Bare: true}
	if m.Role == chaos.RolePlatform {
		c.SSH = s.Profile.PlatformSSH
	}
	if s.Chosen != "" {
		c.TrustArgs = []string{"--profile", s.Chosen}
	}
	return c
}

// operatorTools returns the paths of the programs that the drill runs on this machine.
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

// allocation reads the allocation from the platform, with the request of a walk.
func (s *Session) allocation(ctx context.Context) (*chaos.Allocation, error) {
	at := s.open()
	defer at.close(ctx)
	r := s.ask(ctx, at, diag.HopControlPlaneAccess, diag.HopAllocationBinding)
	for _, f := range r.Facts {
		if f.HTTP == nil || f.HTTP.Fields["allocation.os_user"] == "" {
			continue
		}
		v := f.HTTP.Fields
		return &chaos.Allocation{
			ID: s.of.Allocation, State: v["allocation.state"], NodeID: v["allocation.node_id"], OSUser: v["allocation.os_user"],
			AppUnit: v["allocation.app_unit"], AppPort: v["allocation.app_port"], AppURL: v["allocation.app_product_url"],
		}, nil
	}
	var why []string
	for _, h := range r.Hops {
		if h.Status != diag.StatusPass && h.Status != diag.StatusSkipped && h.Text != "" {
			why = append(why, h.Text)
		}
	}
	return nil, fmt.Errorf("allocation %s cannot be read: %s", s.of.Allocation,
		strings.Join(append(why, "nothing is known of it")[:1], ""))
}
