package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// recordDir is where agents keep their record, unless the profile says otherwise.
const recordDir = "/var/lib/gpuaas/diag"

// recordOptions is which record, and how much of it.
type recordOptions struct {
	targetOptions
	dir    string
	limit  int
	output string
}

func (o *recordOptions) flags(a *app, cmd *cobra.Command, formats ...string) {
	o.targetOptions.flags(a, cmd)
	cmd.Flags().StringVar(&o.dir, "dir", "", "`FOLDER` of the record on the node (default: the profile's, else "+recordDir+")")
	limitFlag(cmd, &o.limit)
	formatFlag(cmd, &o.output, formatTable, formats...)
}

// limitFlag adds --limit.
func limitFlag(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", 32, "newest `ENTRIES` to tell; what is pinned is always told")
}

// maxEntries is how many entries a record can hold.
const maxEntries = 256

func checkLimit(cmd *cobra.Command, limit int) error {
	if limit < 1 || limit > maxEntries {
		return &usageError{err: fmt.Errorf("--limit: want between 1 and %d, not %d", maxEntries, limit), command: cmd.CommandPath()}
	}
	return nil
}

func newDiagShow(a *app) *cobra.Command {
	o := &recordOptions{}
	cmd := &cobra.Command{
		Use:   "show NODE",
		Short: "Print a node's diagnostic record, as its agent keeps it",
		Long: `Reads the record of a node over SSH: what its agent decided, and why, each entry on the disk before the decision took
effect. Pinned entries come first: of every reason the first and the last, the last good contact, the last update. No
agent needs to run there, and a full disk is no obstacle; what it does not hold is read from the copy in memory.

Exit codes: 0 read, 2 usage or configuration, 3 read, and the record is damaged or says that it is degraded, 5 nothing
could be read, 130 interrupted.`,
		Example: `  gpuaasctl diag show compute-node-01 --profile lab
  gpuaasctl diag show compute-node-01 --profile lab --limit 256 -o ndjson`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.showRecord(cmd, args[0], o) },
	}
	o.flags(a, cmd, formatTable, formatJSON, formatNDJSON)
	return cmd
}

func (a *app) showRecord(cmd *cobra.Command, node string, o *recordOptions) error {
	j, err := a.recordTarget(cmd, node, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.deadline)
	defer cancel()
	vantages := j.vantages()
	defer closeAll(ctx, vantages)
	f, err := askRecord(ctx, vantages[preflight.Node], j.recordRequest(o), j.recordHome())
	if err != nil {
		return a.unread(err)
	}
	return a.writeRecord(node, *f.Record, o.output)
}

// recordTarget checks the command line.
func (a *app) recordTarget(cmd *cobra.Command, node string, o *recordOptions) (*job, error) {
	if err := checkLimit(cmd, o.limit); err != nil {
		return nil, err
	}
	if o.dir != "" && !path.IsAbs(o.dir) {
		return nil, &usageError{err: fmt.Errorf("--dir: want an absolute path on the node, not %q", o.dir), command: cmd.CommandPath()}
	}
	j, err := a.target(cmd, &o.targetOptions, node)
	if err != nil {
		return nil, err
	}
	return j, j.needHost()
}

func (j *job) recordRequest(o *recordOptions) diag.Request {
	return diag.Request{ID: "record", Op: diag.OpRecord, Limit: o.limit, Target: cmp.Or(o.dir, j.recordHome())}
}

// recordHome is where the node's agent keeps its record.
func (j *job) recordHome() string { return cmp.Or(j.Env.Profile.Agent.Record, recordDir) }

// askRecord reads the record where v is. A fact without a record is an error that says why.
// at is where the node's agent keeps it: the copy in memory is of that record, and of no other folder's.
func askRecord(ctx context.Context, v preflight.Vantage, req diag.Request, at string) (diag.Fact, error) {
	f := v.Probe(ctx, []diag.Request{req})[0]
	if err := context.Cause(ctx); errors.Is(err, context.Canceled) {
		return f, err
	}
	if f.Failure == diag.OK && f.Record != nil {
		if path.Clean(req.Target) != path.Clean(at) && f.Record.Source == record.SourceMirror {
			return f, fmt.Errorf("--dir: %s of the node holds no record: %s (its agent's is in %s)", req.Target, strings.TrimPrefix(f.Record.Degraded, "read the record: "), at)
		}
		return f, nil
	}
	why := f.Detail
	if why == "" {
		why = string(f.Failure)
	}
	return f, fmt.Errorf("the record in %s could not be read (%s): %s", req.Target, cmp.Or(f.Failure, diag.Unknown), why)
}

// unread says why nothing could be read. The exit code is that of what was not measured.
func (a *app) unread(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	note(a.stderr, "%v", err)
	return &verdictError{exitInconclusive}
}
