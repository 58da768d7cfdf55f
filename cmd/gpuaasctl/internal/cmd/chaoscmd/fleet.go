package chaoscmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
	"github.com/gpuaas/gpuaasctl/ops"
)

// fleetOptions select the machines of a command. They need a profile and its SSH keys, but no token and no known drill.
type fleetOptions struct {
	profile  cmdutil.ProfileFlags
	only     []string
	libexec  string
	deadline time.Duration
	output   string
}

func (o *fleetOptions) flags(a *cmdutil.App, cmd *cobra.Command, deadline time.Duration) {
	f := cmd.Flags()
	f.SortFlags = false
	o.profile.AddName(a, cmd)
	f.StringSliceVar(&o.only, "node-id", nil, "the same as `NODE`, whatever it is called; may be given more than once")
	f.DurationVar(&o.deadline, "deadline", deadline, "end after this `TIME`")
	f.StringVar(&o.libexec, "libexec", "",
		"`FOLDER` of gpuaas-fault, which is put on machines that lack it (default: beside this program)")
	cmdutil.PageFlag(cmd, &o.output)
	machines := func() []string { return append(a.NodeIDs(o.profile.Name), chaos.Platform) }
	cmdutil.CompleteFunc(cmd, "node-id", machines)
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return machines(), cobra.ShellCompDirectiveNoFileComp
	}
}

// machinesOf reads the profile and returns the selected machines, without connecting.
func machinesOf(a *cmdutil.App, cmd *cobra.Command, o *fleetOptions) (*ops.Site, []chaos.Machine, error) {
	p, _, err := o.profile.Load(a, cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := cmdutil.CheckDeadline(o.deadline); err != nil {
		return nil, nil, &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	site := a.SiteWith(p, o.profile.Name, o.libexec, ops.Secrets{})
	all := site.Machines()
	switch {
	case len(all) == 0 && site.Chosen == "":
		return nil, nil, cmdutil.Usagef("which machines are meant? %s", a.NoProfile())
	case len(all) == 0:
		return nil, nil, cmdutil.Usagef("the profile %s has no machines: neither nodes nor platform_ssh.host", p.Name)
	}
	for _, id := range o.only {
		if !slices.ContainsFunc(all, func(m chaos.Machine) bool { return m.ID == id }) {
			return nil, nil, cmdutil.Usagef("the profile %s has no machine %q (it has %s)", p.Name, id,
				cmdutil.OneOf(strictyaml.NearestOf(id, idsOf(all))))
		}
	}
	if len(o.only) > 0 {
		all = slices.DeleteFunc(all, func(m chaos.Machine) bool { return !slices.Contains(o.only, m.ID) })
	}
	return site, all, nil
}

func idsOf(all []chaos.Machine) []string {
	ids := make([]string, len(all))
	for i, m := range all {
		ids[i] = m.ID
	}
	return ids
}

// fleetVerb is an action on machines: a method of a site.
type fleetVerb func(site *ops.Site, ctx context.Context, of []chaos.Machine) *ops.Fleet

// newFleet makes cmd run an action on every machine of the profile, or on the named ones, and show the result.
func newFleet(a *cmdutil.App, deadline time.Duration, do fleetVerb, table fleetPage,
	cmd *cobra.Command) *cobra.Command {
	o := &fleetOptions{}
	cmd.RunE = cmdutil.Run(a, o, func(a *cmdutil.App, cmd *cobra.Command, o *fleetOptions, args []string) error {
		o.only = append(o.only, args...)
		doc, err := fleetReport(a, cmd, o, do)
		if err != nil {
			return err
		}
		return finish(a, cmd, doc, o.output, table)
	})
	o.flags(a, cmd, deadline)
	return cmd
}

// fleetReport runs an action on every machine that o selects, within o's deadline. The error is about the command line.
func fleetReport(a *cmdutil.App, cmd *cobra.Command, o *fleetOptions, do fleetVerb) (*ops.Fleet, error) {
	site, all, err := machinesOf(a, cmd, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.deadline)
	defer cancel()
	cmdutil.IgnoreHangup()
	return do(site, ctx, all), nil
}

// fleetCode returns the exit code of the document: residue on a machine outranks a machine that could not be reached.
func fleetCode(ctx context.Context, d *ops.Fleet) int {
	code := cmdutil.ExitPass
	for _, m := range d.Machines {
		for _, x := range m.Drills {
			if x.Left != "" {
				return cmdutil.ExitResidue
			}
		}
		if m.Clean != nil && !*m.Clean {
			return cmdutil.ExitResidue
		}
		if !m.Reached || m.Error != "" {
			code = cmdutil.ExitInconclusive
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return cmdutil.ExitInterrupted
	}
	return code
}

// finish writes the document and returns its exit code.
func finish(a *cmdutil.App, cmd *cobra.Command, doc *ops.Fleet, output string, table fleetPage) error {
	return a.ExitError(fleetCode(cmd.Context(), doc), a.ShowPage(doc, output, table(doc)...))
}

// fleetPage is the document for people.
type fleetPage func(*ops.Fleet) []page.Block

// line returns one sentence as a block.
func line(format string, args ...any) page.Block {
	return page.Para{Text: fmt.Sprintf(format, args...)}
}

// unreached lists the machines that could not be reached, or not read completely.
func unreached(d *ops.Fleet) (lines []page.Block) {
	for _, m := range d.Machines {
		switch {
		case !m.Reached:
			lines = append(lines, line("not reached: %s (%s): %s", m.ID, m.Host, m.Error))
		case m.Error != "":
			lines = append(lines, line("%s: %s", m.ID, m.Error))
		}
	}
	return lines
}
