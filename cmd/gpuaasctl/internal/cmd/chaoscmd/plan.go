package chaoscmd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/ops"
)

// drillOptions select the machines of a drill; every command that connects to machines has them.
type drillOptions struct {
	target     cmdutil.TargetOptions
	peer       string
	allocation string
	trusted    []string // FILE@SHA256
}

func (o *drillOptions) flags(a *cmdutil.App, cmd *cobra.Command) {
	o.target.Flags(a, cmd)
	nodes := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completeDrill(cmd, args, word)
		}
		return nodes(cmd, args[1:], word)
	}
	f := cmd.Flags()
	f.Lookup("libexec").Usage = "`FOLDER` of gpuaas-agent and gpuaas-fault, which are put on machines that lack them " +
		"(default: beside this program)"
	f.Lookup("node-id").Usage =
		"the `NODE` that is walked, and broken where the drill breaks a node (default: the profile's only one)"
	f.StringVar(&o.peer, "peer-id", "", "another `NODE`, for drills that need two (default: the profile's only other one)")
	f.StringVar(&o.allocation, "allocation-id", "",
		"the `ALLOCATION` that is walked; drills of a terminal or a workload need it")
	cmdutil.CompleteFunc(cmd, "peer-id", func() []string { return a.NodeIDs(o.target.Profile.Name) })
}

// planOptions are the options of `chaos plan`.
type planOptions struct {
	drillOptions
	output, facts string
}

func newChaosPlan(a *cmdutil.App) *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan DRILL [NODE [ALLOCATION]]",
		Short: "Read the machines and print every step, what undo restores, and why it would be refused",
		Long: `Read the machines and print exactly what a drill would do there, what undo would restore, what is expected by when, and
everything that speaks against it. Every read is made and nothing is written; no helper is put on any machine.

Exit codes: 0 it may be run, 2 the drill or the command line is wrong, 5 it is refused, or a machine or the platform cannot
be asked.`,
		Example: `  gpuaasctl chaos plan api-egress-blocked compute-node-01
  gpuaasctl chaos plan pty-delayed compute-node-01 alloc-01 -o json >plan.json
  gpuaasctl chaos plan our-egress.yaml compute-node-01 --profile lab --facts plan.json`,
		Args: cmdutil.Args(1, 3),
		RunE: cmdutil.Run(a, o, chaosPlan),
	}
	o.flags(a, cmd)
	trustFlag(cmd, &o.trusted)
	cmd.Flags().Lookup("deadline").Usage = "end the reading of the machines after this `TIME`"
	cmd.Flags().StringVar(&o.facts, "facts", "",
		"plan from the facts in `FILE`, an earlier plan in JSON, and ask no machine")
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func chaosPlan(a *cmdutil.App, cmd *cobra.Command, o *planOptions, args []string) error {
	p, err := planDrill(a, cmd, o, args[0], args[1:])
	if err != nil {
		return err
	}
	err = a.ShowPage(p.Redacted(), o.output, drillrender.Plan(&p)...)
	if err == nil && len(p.Refused) > 0 {
		err = &cmdutil.VerdictError{Code: cmdutil.ExitInconclusive}
	}
	return err
}

// planDrill makes a plan. It refuses everything that needs no machine to be checked before it contacts one.
func planDrill(a *cmdutil.App, cmd *cobra.Command, o *planOptions, name string,
	about []string) (chaos.Plan, error) {
	s, err := oneDrill(name)
	if err != nil {
		return chaos.Plan{}, err
	}
	if err := mayRunHere([]chaos.Scenario{s}, o.trusted); err != nil {
		return chaos.Plan{}, err
	}
	o.target.Nobody = o.facts != ""
	session, on, err := drillSession(a, cmd, &o.drillOptions, about)
	if err != nil {
		return chaos.Plan{}, err
	}
	d, err := drillOn(session, on, s)
	if err != nil {
		return chaos.Plan{}, err
	}
	run := ops.NewDrillID(time.Now())
	if o.facts != "" {
		facts, err := readFacts(cmd.Context(), a, o.facts)
		if err != nil {
			return chaos.Plan{}, err
		}
		p := d.Make(facts, run)
		p.Facts = &facts
		return p, nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.target.Deadline)
	defer cancel()
	p, facts, missing := d.Plan(ctx, run)
	if err := cmd.Context().Err(); err != nil {
		return chaos.Plan{}, err
	}
	if missing == nil {
		p.Facts = &facts
	}
	return p, nil
}

// drillSession reads the profile and returns the session for a drill. about is NODE and ALLOCATION.
func drillSession(a *cmdutil.App, cmd *cobra.Command, o *drillOptions,
	about []string) (*ops.Session, chaos.Subject, error) {
	if err := cmdutil.CheckIDs(ops.Target{Node: o.peer}); err != nil {
		return nil, chaos.Subject{}, &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	s, err := a.Target(cmd, &o.target, about, ops.Target{Allocation: o.allocation})
	if err != nil {
		return nil, chaos.Subject{}, err
	}
	of := s.Subject()
	on := chaos.Subject{Node: of.NodeID, Peer: o.peer, Allocation: of.AllocationID}
	all := slices.Sorted(maps.Keys(s.Site().Profile.Nodes))
	others := slices.DeleteFunc(all, func(id string) bool { return id == on.Node })
	if on.Peer == "" && len(others) == 1 {
		on.Peer = others[0]
	}
	if on.Peer == on.Node && on.Peer != "" {
		return nil, on, cmdutil.Usagef("--peer-id: %s is the node that is walked", on.Peer)
	}
	return s, on, nil
}

// drillOn returns a drill with its machines.
func drillOn(s *ops.Session, on chaos.Subject, scenario chaos.Scenario) (ops.Drill, error) {
	on.Absent = ops.AbsentHops(s.Site().Hops, s.Site().Profile)
	if err := scenario.CheckNode(s.Site().Profile, on); err != nil {
		return ops.Drill{}, &cmdutil.UsageError{Err: err}
	}
	if len(scenario.Lacks(s.Site().Profile, on)) > 0 { // the plan says what
		return ops.Drill{Scenario: scenario, Session: s, Subject: on}, nil
	}
	if scenario.NeedsAllocation() && on.Allocation == "" {
		return ops.Drill{}, cmdutil.Usagef("drill %s needs --allocation-id", scenario.Metadata.ID)
	}
	machines, err := scenario.Machines(s.Site().Profile, on)
	if err != nil {
		return ops.Drill{}, &cmdutil.UsageError{Err: err}
	}
	return ops.Drill{Scenario: scenario, Session: s, Subject: on, Machines: machines}, nil
}

// readFacts returns the facts in a plan.
func readFacts(ctx context.Context, a *cmdutil.App, path string) (chaos.Facts, error) {
	p, err := cmdutil.Read(ctx, a, path, func(data []byte) (p chaos.Plan, err error) {
		return p, bounded.Unmarshal(data, &p, bounded.Document())
	})
	if err != nil {
		return chaos.Facts{}, cmdutil.Usagef("--facts: %w", err)
	}
	if p.Kind != chaos.PlanKind || p.Facts == nil {
		return chaos.Facts{}, &cmdutil.UsageError{
			Err: errors.New("--facts: " + path + " is no plan with facts (gpuaasctl chaos plan -o json writes one)"),
		}
	}
	return *p.Facts, nil
}
