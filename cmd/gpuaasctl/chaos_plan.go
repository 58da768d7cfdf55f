package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// drillOptions say which machines a drill is about; every command that goes to machines has them.
type drillOptions struct {
	target     targetOptions
	node, peer string
	allocation string
	trusted    []string // FILE@SHA256
}

func (o *drillOptions) flags(a *app, cmd *cobra.Command) {
	o.target.flags(a, cmd)
	cmd.ValidArgsFunction = completeDrill
	f := cmd.Flags()
	f.StringVar(&o.node, "node-id", "", "the `NODE` that is walked, and broken where the drill breaks a node (default: the profile's only one)")
	f.StringVar(&o.peer, "peer-id", "", "another `NODE`, for drills that need two (default: the profile's only other one)")
	f.StringVar(&o.allocation, "allocation-id", "", "the `ALLOCATION` that is walked; drills of a terminal or a workload need it")
	completeFunc(cmd, "node-id", func() []string { return a.nodeIDs(o.target.profile.name) })
	completeFunc(cmd, "peer-id", func() []string { return a.nodeIDs(o.target.profile.name) })
}

func newChaosPlan(a *app) *cobra.Command {
	o := &drillOptions{}
	var output, facts string
	cmd := &cobra.Command{
		Use:   "plan DRILL",
		Short: "Read the machines and print every step, what undo restores, and why it would be refused",
		Long: `Read the machines and print exactly what a drill would do there, what undo would restore, what is expected by when, and
everything that speaks against it. Every read is made and nothing is written; no helper is put on any machine.

Exit codes: 0 it may be run, 2 the drill or the command line is wrong, 5 it is refused, or a machine or the platform cannot
be asked.`,
		Example: `  gpuaasctl chaos plan api-egress-blocked --profile lab --node-id compute-node-01
  gpuaasctl chaos plan pty-delayed --profile lab --node-id compute-node-01 --allocation-id alloc-01 -o json >plan.json
  gpuaasctl chaos plan our-egress.yaml --profile lab --node-id compute-node-01 --facts plan.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.planDrill(cmd, o, args[0], facts)
			if err != nil {
				return err
			}
			if output == formatJSON {
				err = a.writeJSON(p.Redacted())
			} else {
				err = a.write([]byte(p.Text()))
			}
			if err == nil && len(p.Refused) > 0 {
				err = &verdictError{exitInconclusive}
			}
			return err
		},
	}
	o.flags(a, cmd)
	trustFlag(cmd, &o.trusted)
	cmd.Flags().StringVar(&facts, "facts", "", "plan from the facts in `FILE`, an earlier plan in JSON, and ask no machine")
	formatFlag(cmd, &output, formatTable, formatTable, formatJSON)
	return cmd
}

// planDrill makes a plan. Everything that can be known without a machine is refused before one is asked.
func (a *app) planDrill(cmd *cobra.Command, o *drillOptions, name, factsFile string) (chaos.Plan, error) {
	s, err := oneDrill(name)
	if err != nil {
		return chaos.Plan{}, err
	}
	if err := mayRunHere([]chaos.Scenario{s}, o.trusted); err != nil {
		return chaos.Plan{}, err
	}
	o.target.nobody = factsFile != ""
	j, on, err := a.drillJob(cmd, o)
	if err != nil {
		return chaos.Plan{}, err
	}
	machines, err := j.drillMachines(&s, on)
	if err != nil {
		return chaos.Plan{}, err
	}
	var facts chaos.Facts
	var missing error
	if factsFile != "" {
		facts, err = readFacts(factsFile)
	} else {
		ctx, cancel := context.WithTimeout(cmd.Context(), o.target.deadline)
		defer cancel()
		facts, missing = j.survey(ctx, &s, on, machines)
		err = cmd.Context().Err()
	}
	if err != nil {
		return chaos.Plan{}, err
	}
	p := chaos.Make(s, j.Env.Profile, on, facts, newDrillID(time.Now()))
	if missing != nil {
		p.Refused = unasked(missing)
		return p, nil
	}
	p.Facts = &facts
	return p, nil
}

// drillJob reads the profile and says which machines are meant, whatever the drill.
func (a *app) drillJob(cmd *cobra.Command, o *drillOptions) (*job, chaos.Subject, error) {
	if err := checkIDs(&preflightOptions{nodeID: o.peer, allocationID: o.allocation}); err != nil {
		return nil, chaos.Subject{}, &usageError{err: err, command: cmd.CommandPath()}
	}
	j, err := a.target(cmd, &o.target, o.node)
	if err != nil {
		return nil, chaos.Subject{}, err
	}
	p := j.Env.Profile
	on := chaos.Subject{Node: o.node, Peer: o.peer, Allocation: o.allocation}
	all := slices.Sorted(maps.Keys(p.Nodes))
	if on.Node == "" && len(all) == 1 {
		on.Node = all[0]
	}
	if on.Node == "" && len(all) > 1 {
		return nil, on, usagef("--node-id: which of %s is meant?", oneOf(all))
	}
	others := slices.DeleteFunc(all, func(id string) bool { return id == on.Node })
	if on.Peer == "" && len(others) == 1 {
		on.Peer = others[0]
	}
	if on.Peer == on.Node && on.Peer != "" {
		return nil, on, usagef("--peer-id: %s is the node that is walked", on.Peer)
	}
	j.Env.Subject = preflight.NewSubject(p, on.Node, o.target.nodeHost, on.Allocation, "")
	return j, on, nil
}

// drillMachines are the machines that a drill has to do with.
func (j *job) drillMachines(s *chaos.Scenario, on chaos.Subject) ([]chaos.Machine, error) {
	if s.NeedsAllocation() && on.Allocation == "" {
		return nil, usagef("drill %s needs --allocation-id", s.Metadata.ID)
	}
	machines, err := s.Machines(j.Env.Profile, on)
	if err != nil {
		return nil, &usageError{err: err}
	}
	return machines, nil
}

// readFacts takes the facts out of a plan.
func readFacts(path string) (chaos.Facts, error) {
	f, err := openFile(path)
	if err != nil {
		return chaos.Facts{}, &usageError{err: fmt.Errorf("--facts: %w", err)}
	}
	defer func() { _ = f.Close() }()
	data, err := bounded.Read(f, bounded.DocumentBytes)
	if err != nil {
		return chaos.Facts{}, &usageError{err: fmt.Errorf("--facts: read %s: %w", path, err)}
	}
	var p chaos.Plan
	if err := bounded.Unmarshal(data, &p, bounded.Document()); err != nil {
		return chaos.Facts{}, &usageError{err: fmt.Errorf("--facts: %s: %w", path, err)}
	}
	if p.Kind != chaos.PlanKind || p.Facts == nil {
		return chaos.Facts{}, &usageError{err: errors.New("--facts: " + path + " is no plan with facts (gpuaasctl chaos plan -o json writes one)")}
	}
	return *p.Facts, nil
}

// newDrillID names a run on machines: the time, so that runs can be told, and something random, so that two of the same
// second can.
func newDrillID(now time.Time) string {
	id := preflight.NewID("x")
	return now.UTC().Format("060102-150405") + "-" + cmp.Or(id[max(0, len(id)-4):], "0")
}
