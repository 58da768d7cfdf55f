package nodecmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/ops/endpoints"
)

func newNodeEndpoints(a *cmdutil.App) *cobra.Command {
	return cmdutil.Parent("endpoints", "Add the profile's private names to a node's hosts file, or remove them", "",
		newEndpointsAction(a, ops.EndpointsPlan, "Show what apply would change, and where the names lead now; writes nothing",
			`  gpuaasctl node endpoints plan compute-node-01 --profile lab
  gpuaasctl node endpoints plan compute-node-01 --profile lab -o json`),
		newEndpointsAction(a, ops.EndpointsApply, "Write the names as one managed block, or put the former block back",
			`  gpuaasctl node endpoints apply compute-node-01 --profile lab
  gpuaasctl node endpoints apply compute-node-01 --profile lab --undo`),
		newEndpointsAction(a, ops.EndpointsRemove, "Take the managed block out",
			`  gpuaasctl node endpoints remove compute-node-01 --profile lab`),
	)
}

// endpointsOptions select the node, and the action on its hosts file.
type endpointsOptions struct {
	cmdutil.TargetOptions
	action ops.EndpointsAction
	output string
	undo   bool
}

// newEndpointsAction returns the command for one action; actions differ in the text that they plan, and in whether they
// write it.
func newEndpointsAction(a *cmdutil.App, action ops.EndpointsAction, short, example string) *cobra.Command {
	o := &endpointsOptions{action: action}
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
		RunE:    cmdutil.Run(a, o, nodeEndpoints),
	}
	o.Flags(a, cmd)
	if action == ops.EndpointsApply {
		cmd.Flags().BoolVar(&o.undo, "undo", false, "restore the block that the last change replaced")
	}
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

// nodeEndpoints performs the action and writes the document, which also reports a refusal.
func nodeEndpoints(a *cmdutil.App, cmd *cobra.Command, o *endpointsOptions, args []string) error {
	s, err := a.Target(cmd, &o.TargetOptions, args, ops.Target{})
	if err != nil {
		return err
	}
	if o.undo {
		o.action = ops.EndpointsUndo
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Deadline)
	defer cancel()
	d, err := s.Endpoints(ctx, o.action)
	if d == nil {
		return err
	}
	if werr := a.ShowPage(d, o.output, endpointsPage(d)...); werr != nil {
		return werr
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*ops.UnreadError)): // nothing was measured
		return a.NotMeasured(err)
	case err != nil:
		return &cmdutil.FailedError{Err: err}
	case !d.Resolves():
		return &cmdutil.VerdictError{Code: cmdutil.ExitFailed}
	}
	return nil
}
