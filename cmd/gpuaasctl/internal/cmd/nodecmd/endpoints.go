package nodecmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/endpoints"
	"github.com/gpuaas/gpuaasctl/ops"
)

func newNodeEndpoints(a *cmdutil.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "endpoints",
		Short: "Add the profile's private names to a node's hosts file, or remove them",
		Args:  cmdutil.KnownCommand,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newEndpointsAction(a, ops.EndpointsPlan, "Show what apply would change, and where the names lead now; writes nothing",
			`  gpuaasctl node endpoints plan compute-node-01 --profile lab
  gpuaasctl node endpoints plan compute-node-01 --profile lab -o json`),
		newEndpointsAction(a, ops.EndpointsApply, "Write the names as one managed block, or put the former block back",
			`  gpuaasctl node endpoints apply compute-node-01 --profile lab
  gpuaasctl node endpoints apply compute-node-01 --profile lab --undo`),
		newEndpointsAction(a, ops.EndpointsRemove, "Take the managed block out",
			`  gpuaasctl node endpoints remove compute-node-01 --profile lab`),
	)
	return cmd
}

// newEndpointsAction returns the command for one action; actions differ in the text that they plan, and in whether they
// write it.
func newEndpointsAction(a *cmdutil.App, action ops.EndpointsAction, short, example string) *cobra.Command {
	o := &cmdutil.TargetOptions{}
	var output string
	var undo bool
	cmd := &cobra.Command{
		Use:   string(action) + " [NODE]",
		Short: short,
		Long: short + `.

The block lies between markers in ` + endpoints.HostsFile + ` of the node and holds node_runtime_resolve_address and
node_terminal_resolve_address under the names of their URLs. Every other line stays as it is. A line that was written
by hand for one of the names is reported and never touched; one with another address stops apply. Each change has a line
in ` + endpoints.LogFile + ` and in the node's journal.

Exit codes: 0 as wanted, or apply would make it so, 2 usage or configuration, 3 refused, or apply would be, or not as
wanted afterwards, 5 the node's file could not be read, 130 interrupted.`,
		Example: example,
		Args:    cmdutil.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.Target(cmd, o, args, ops.Target{})
			if err != nil {
				return err
			}
			if undo {
				action = ops.EndpointsUndo
			}
			return nodeEndpoints(a, cmd.Context(), s, o.Deadline, action, output)
		},
	}
	o.Flags(a, cmd)
	if action == ops.EndpointsApply {
		cmd.Flags().BoolVar(&undo, "undo", false, "restore the block that the last change replaced")
	}
	cmdutil.PageFlag(cmd, &output)
	return cmd
}

// nodeEndpoints performs the action and writes the document, which also reports a refusal.
func nodeEndpoints(a *cmdutil.App, ctx context.Context, s *ops.Session, deadline time.Duration,
	action ops.EndpointsAction, output string) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	d, err := s.Endpoints(ctx, action)
	if d == nil {
		return err
	}
	if werr := a.ShowPage(d, output, endpointsPage(d)...); werr != nil {
		return werr
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*ops.UnreadError)): // nothing was measured
		return a.Unread(err)
	case err != nil:
		return &cmdutil.FailedError{Err: err}
	case !d.AsWanted():
		return &cmdutil.VerdictError{Code: cmdutil.ExitFailed}
	}
	return nil
}
