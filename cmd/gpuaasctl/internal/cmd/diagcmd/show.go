package diagcmd

import (
	"context"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/profile"
)

// recordOptions select the record, and how much of it is read.
type recordOptions struct {
	cmdutil.TargetOptions
	dir    string
	limit  int
	output string
}

func (o *recordOptions) flags(a *cmdutil.App, cmd *cobra.Command, formats ...string) {
	o.TargetOptions.Flags(a, cmd)
	cmd.Flags().StringVar(&o.dir, "dir", "", "`FOLDER` of the record on the node (default: the profile's, else "+
		profile.DefaultAgentRecord+")")
	limitFlag(cmd, &o.limit)
	cmdutil.FormatFlag(cmd, &o.output, cmdutil.FormatTable, formats...)
}

// limitFlag adds --limit.
func limitFlag(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", 32, "newest `ENTRIES` to print; pinned entries are always printed")
}

// maxEntries is how many entries a record can have.
const maxEntries = 256

func checkLimit(cmd *cobra.Command, limit int) error {
	if limit < 1 || limit > maxEntries {
		return &cmdutil.UsageError{Err: fmt.Errorf("--limit: want between 1 and %d, not %d", maxEntries, limit),
			Command: cmd.CommandPath()}
	}
	return nil
}

func newDiagShow(a *cmdutil.App) *cobra.Command {
	o := &recordOptions{}
	cmd := &cobra.Command{
		Use:   "show [NODE]",
		Short: "Print a node's diagnostic record, as its agent keeps it",
		Long: `Reads the diagnostic record of a node over SSH: what its agent decided, and why. The agent writes each entry to disk
before it acts on the decision. Pinned entries are printed first: the first and the last entry of each reason, the last
good contact and the last update. The agent does not need to run, and the disk may be full: what the record on disk
lacks is read from the copy in memory.

Exit codes: 0 read, 2 usage or configuration, 3 read, but the record is damaged or marked as degraded, 5 nothing could
be read, 130 interrupted.`,
		Example: `  gpuaasctl diag show compute-node-01 --profile lab
  gpuaasctl diag show compute-node-01 --profile lab --limit 256 -o ndjson`,
		Args: cmdutil.Args(0, 1),
		RunE: cmdutil.Run(a, o, showRecord),
	}
	o.flags(a, cmd, cmdutil.FormatTable, cmdutil.FormatJSON, cmdutil.FormatNDJSON, cmdutil.FormatMarkdown)
	return cmd
}

func showRecord(a *cmdutil.App, cmd *cobra.Command, o *recordOptions, args []string) error {
	s, err := recordTarget(a, cmd, o, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Deadline)
	defer cancel()
	r, err := s.Record(ctx, ops.RecordOptions{Dir: o.dir, Limit: o.limit})
	if err != nil {
		return a.NotMeasured(err)
	}
	return writeRecord(a, r, o.output)
}

// recordTarget checks the command line.
func recordTarget(a *cmdutil.App, cmd *cobra.Command, o *recordOptions, args []string) (*ops.Session, error) {
	if err := checkLimit(cmd, o.limit); err != nil {
		return nil, err
	}
	if o.dir != "" && !path.IsAbs(o.dir) {
		return nil, &cmdutil.UsageError{Err: fmt.Errorf("--dir: want an absolute path on the node, not %q", o.dir),
			Command: cmd.CommandPath()}
	}
	s, err := a.Target(cmd, &o.TargetOptions, args, ops.Target{})
	if err != nil {
		return nil, err
	}
	return s, s.RequireHost()
}
