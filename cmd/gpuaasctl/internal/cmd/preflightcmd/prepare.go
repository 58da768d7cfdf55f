package preflightcmd

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/profile"
)

// prepare turns flags, environment and profile into a session and a walk. It reads local files and, except for a plan,
// runs the commands that print secrets; it does not use the network.
func prepare(a *cmdutil.App, cmd *cobra.Command, o *preflightOptions,
	args []string) (*ops.Session, ops.WalkOptions, error) {
	watch := o.watch.every > 0 && !o.watch.full
	walk := ops.WalkOptions{Terminal: o.session && !watch, Watch: watch}
	t := ops.Target{Allocation: o.allocationID, Session: o.sessionID, Correlation: o.correlationID, As: "preflight"}
	p, err := a.Subject(cmd, &o.TargetOptions, args, &t)
	if err != nil {
		return nil, walk, err
	}
	o.NodeID, o.allocationID = t.Node, t.Allocation // a hop is walked again without args
	o.Nobody = o.dryRun
	chain := hops.WithChecks(a.Chain(), &p)
	var errOnly, errSkip error
	walk.Only, errOnly = checkedHops(chain, cmd, "only", o.only)
	walk.Skip, errSkip = checkedHops(chain, cmd, "skip", o.skip)
	if err := errors.Join(errOnly, errSkip, o.Check(t), cmdutil.CheckReportPath(o.report, ".html")); err != nil {
		return nil, walk, &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	asked := walk.Only
	if len(asked) == 0 {
		asked = hopIDs(chain)
	}
	if !slices.ContainsFunc(asked, func(id diag.HopID) bool { return !slices.Contains(walk.Skip, id) }) {
		return nil, walk, &cmdutil.UsageError{Err: errors.New("--only and --skip leave no hop to walk"),
			Command: cmd.CommandPath()}
	}
	read := append(p.Files(), o.baseline.Name, o.compare, profile.Path(o.Profile.Name, profile.Dir(a.Env)))
	if err := cmdutil.CheckNotInput(o.report, read...); err != nil {
		return nil, walk, wrongUse(cmd, err)
	}
	if err := o.baseline.Read(cmd.Context(), a, o.failOn); err != nil {
		return nil, walk, err
	}
	if _, err := a.HistoryOff(); err != nil {
		return nil, walk, err
	}
	s, err := a.Session(cmd, &o.TargetOptions, p, t)
	if err != nil {
		return nil, walk, err
	}
	if err := reachable(a, s, s.Plan(walk), o.dryRun); err != nil {
		if meant := cmd.SuggestionsFor(o.NodeID); len(meant) > 0 && len(args) > 0 {
			err = cmdutil.Usagef("%w (or is it the command %s that is meant?)", a.WithHint(err), cmdutil.OneOf(meant))
		}
		return nil, walk, err
	}
	walk.Baseline, walk.Command = o.baseline.Baseline, sameWalk(s.Site(), cmd, o)
	if s.Site().Hops.Reaches(s.Plan(walk), hop.Node) && !o.dryRun {
		if err := vantage.CheckFiles(p.SSH); err != nil {
			return nil, walk, &cmdutil.UsageError{Err: err}
		}
	}
	return s, walk, nil
}

// reachable refuses a walk without an address to connect to, and one of a node that the profile does not have and that
// no platform is asked about: it would be the same for any name.
func reachable(a *cmdutil.App, s *ops.Session, plan diag.Plan, dryRun bool) error {
	p, of, chain := s.Site().Profile, s.Subject(), s.Site().Hops
	if p.OtherNodes(of.NodeID) != "" && chain.WantsNode(plan) && !chain.AsksNode(plan) {
		return s.RequireHost()
	}
	if _, listed := p.Nodes[of.NodeID]; listed && of.NodeHost == "" {
		return s.RequireHost()
	}
	if dryRun || p.APIBase != "" || p.TerminalBase != "" || of.NodeHost != "" {
		return nil
	}
	if p.OtherNodes(of.NodeID) != "" {
		return s.RequireHost()
	}
	return cmdutil.Usagef("nothing is known about where to ask about %s, and %s; or give --api-base, or --node-host",
		of.NodeID, a.NoProfile())
}

// sameWalk is the command line that walks the same node again, with the flags that select the profile and the
// addresses. It is empty if the profile's name suffices.
func sameWalk(site *ops.Site, cmd *cobra.Command, o *preflightOptions) string {
	argv := []string{"gpuaasctl", "preflight"}
	if site.Chosen != "" {
		argv = append(argv, "--profile", site.Chosen)
	}
	argv = append(argv, "--node-id", o.NodeID) // whatever it is called
	named := len(argv)
	if o.NodeHost != "" {
		argv = append(argv, "--node-host", o.NodeHost)
	}
	for i, over := range cmdutil.Overrides {
		if cmd.Flags().Changed(over.Flag) {
			argv = append(argv, "--"+over.Flag, o.Profile.Values[i])
		}
	}
	if site.Chosen != "" && site.Chosen == site.Profile.Name && len(argv) == named {
		return ""
	}
	return diag.Command(argv...)
}

// checkedHops parses a flag that lists hops. It refuses an empty value (an unset variable), which would otherwise mean
// the whole chain.
func checkedHops(chain *hop.Chain, cmd *cobra.Command, flag string, names []string) ([]diag.HopID, error) {
	if len(names) == 0 && cmd.Flags().Changed(flag) {
		return nil, fmt.Errorf("--%s: no hop is named (gpuaasctl preflight hops lists them)", flag)
	}
	return chain.Check(flag, names)
}
