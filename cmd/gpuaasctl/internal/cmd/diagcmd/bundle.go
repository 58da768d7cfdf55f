package diagcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/page"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// historyOptions select the subject and the period of a history.
type historyOptions struct {
	target                      cmdutil.TargetOptions
	allocationID, correlationID string
	since                       time.Duration
}

// defaultSince is the default period: most incidents are reported within the hour.
const defaultSince = time.Hour

// maxSince bounds --since: no source keeps older data.
const maxSince = 90 * 24 * time.Hour

func (o *historyOptions) flags(a *cmdutil.App, cmd *cobra.Command) {
	o.target.Flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&o.allocationID, "allocation-id", "", "an allocation on the node, by `ID`")
	f.StringVar(&o.correlationID, "correlation-id", "", "correlation `ID` of the failing request")
	f.DurationVar(&o.since, "since", defaultSince, "look back over this `TIME`")
}

// prepare makes the session; it does not use the network.
func (o *historyOptions) prepare(a *cmdutil.App, cmd *cobra.Command, args []string) (*ops.Session, error) {
	if o.since <= 0 || o.since > maxSince {
		return nil, &cmdutil.UsageError{
			Err:     fmt.Errorf("--since: want more than nothing and at most %s, not %s", maxSince, o.since),
			Command: cmd.CommandPath(),
		}
	}
	s, err := a.Target(cmd, &o.target, args, ops.Target{Allocation: o.allocationID, Correlation: o.correlationID})
	if err != nil {
		return nil, err
	}
	if err := s.RequireHost(); err != nil && s.Site().Profile.APIBase == "" {
		return nil, err
	}
	return s, nil
}

// bundleOptions is the destination of the archive.
type bundleOptions struct {
	history historyOptions
	file    string
	output  string
}

func newDiagBundle(a *cmdutil.App) *cobra.Command {
	o := &bundleOptions{}
	cmd := &cobra.Command{
		Use:   "bundle [NODE [ALLOCATION]]",
		Short: "Gather all evidence about a node into one archive",
		Long: `Collects evidence from all sources (the node, its agent's record and journal, the platform's API, evidence and
logs, the ingress), walks the hop chain once, joins it all into one timeline and packs it with a manifest of digests.
README.txt in the archive is the summary. Secrets are redacted where they are read, and the manifest lists where.

A source that does not answer delays the bundle by its own deadline at most; missing sources are listed. Existing files are never replaced.

Exit codes: 0 every source answered, 1 it could not be written (what was gathered is listed), 2 usage or configuration,
3 neither the node nor the platform answered (the rest was written), 5 a partial bundle was written, or FILE could not
be written and the bundle is in $TMPDIR under the printed name, 130 interrupted (a partial bundle was written).`,
		Example: `  gpuaasctl diag bundle compute-node-01 alloc-01
  gpuaasctl diag bundle compute-node-01 --correlation-id ID --since 6h -O case-4711.tar.gz`,
		Args: cmdutil.Args(0, 2),
		RunE: cmdutil.Run(a, o, bundle),
	}
	o.history.flags(a, cmd)
	cmdutil.OutFlag(cmd, &o.file, "write the archive to `FILE` (default: evidence-NODE-TIME.tar.gz here)")
	cmdutil.PageFlag(cmd, &o.output)
	cmd.AddCommand(newBundleVerify(a))
	return cmd
}

// bundle gathers evidence from all sources and writes it, even if interrupted.
func bundle(a *cmdutil.App, cmd *cobra.Command, o *bundleOptions, args []string) error {
	s, err := o.history.prepare(a, cmd, args)
	if err != nil {
		return err
	}
	o.file = cmp.Or(o.file,
		fmt.Sprintf("evidence-%s-%s.tar.gz", s.Subject().NodeID, s.Began.UTC().Format("20060102T150405Z")))
	if err := cmdutil.CheckNewFile("--out", o.file); err != nil {
		return &cmdutil.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.history.target.Deadline)
	defer cancel()
	e, err := s.Evidence(ctx, ops.EvidenceOptions{Since: s.Began.Add(-o.history.since), Walk: true})
	if err != nil {
		return err
	}
	m, err := e.Bundle(drawFile)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := evidence.Pack(&b, m); err != nil {
		return fmt.Errorf("pack the bundle: %w", err)
	}
	wanted := o.file
	lost := saveBundle(a, o, b.Bytes())
	if err := showBundle(a, m, o, b.Len()); err != nil || lost != nil {
		return errors.Join(lost, err)
	}
	if err := gatheredCode(m); err != nil || o.file == wanted {
		return err
	}
	return &cmdutil.VerdictError{Code: cmdutil.ExitInconclusive}
}

// saveBundle writes the archive to o.file. If that fails (a full disk, or another run created the file first), it
// writes to the folder for temporary files, sets o.file and notes the path, since the evidence cannot be gathered
// again. An error means that it was not written at all; o.file is then empty.
func saveBundle(a *cmdutil.App, o *bundleOptions, data []byte) error {
	why := cmdutil.WriteNewFile(o.file, data)
	if why == nil {
		return nil
	}
	elsewhere := filepath.Join(cmp.Or(a.Env("TMPDIR"), os.TempDir()),
		strings.TrimSuffix(filepath.Base(o.file), ".tar.gz")+"-"+walk.NewID("kept")+".tar.gz")
	if err := cmdutil.WriteNewFile(elsewhere, data); err != nil {
		o.file = ""
		return fmt.Errorf("write the bundle: %w", errors.Join(why, err))
	}
	cmdutil.Note(a.Stderr, "%s could not be written (%v); the bundle is in %s", o.file, why, elsewhere)
	o.file = elsewhere
	return nil
}

// gatheredCode returns the exit code after gathering.
func gatheredCode(m *evidence.Manifest) error {
	if m.EndedBy == diag.EndedInterrupted {
		return &cmdutil.VerdictError{Code: cmdutil.ExitInterrupted}
	}
	return wholeCode(m)
}

// wholeCode returns the exit code for the completeness of the evidence, now or when a bundle was made.
func wholeCode(m *evidence.Manifest) error {
	if m.Whole {
		return nil
	}
	for _, g := range m.Sources {
		if g.Source != "preflight" && (g.Status == evidence.GotWhole || g.Status == evidence.GotPart) {
			return &cmdutil.VerdictError{Code: cmdutil.ExitInconclusive}
		}
	}
	return &cmdutil.VerdictError{Code: cmdutil.ExitFailed}
}

func showBundle(a *cmdutil.App, m *evidence.Manifest, o *bundleOptions, size int) error {
	doc := struct {
		File string `json:"file"`
		Size int    `json:"size"`
		*evidence.Manifest
	}{o.file, size, m}
	rows := [][]string{{"SOURCE", "STATUS", "TOOK", "WHAT"}}
	for _, g := range m.Sources {
		took := ""
		if g.DurationMS > 0 {
			took = g.DurationMS.Words()
		}
		rows = append(rows, []string{g.Source, g.Status, took, g.Why})
	}
	whole := "whole"
	if !m.Whole {
		whole = "partial"
	}
	where := "the bundle is not written"
	if o.file != "" {
		where = fmt.Sprintf("%s: %s, %d bytes, %d files; begin with README.txt", o.file, whole, size, len(m.Files)+1)
	}
	return a.ShowPage(doc, o.output, cmdutil.Table(rows), page.Blank{}, page.Para{Text: where})
}

func newBundleVerify(a *cmdutil.App) *cobra.Command {
	return cmdutil.Formatted(a, verify, &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a bundle against its manifest",
		Long: `Reads every file of a bundle and compares it with the manifest's digest.

Exit codes: 0 it is as it was packed, 2 usage, or it cannot be read or is not a bundle, 3 it is not as it was packed
(what differs is named; with -o json the document says so).`,
		Example: `  gpuaasctl diag bundle verify case-4711.tar.gz`,
		Args:    cmdutil.Args(1, 1),
	}, cmdutil.PageFormats()...)
}

func verify(a *cmdutil.App, _ *cobra.Command, o *cmdutil.OutputOptions, args []string) error {
	m, damage := openBundle(args[0])
	if damage != nil && !errors.As(damage, new(*cmdutil.FailedError)) {
		return damage
	}
	said := page.Para{}
	if damage == nil {
		said.Text = fmt.Sprintf("%s is as it was packed: %d files about node %s, run %s", args[0], len(m.Files)+1,
			m.NodeID, m.RunID)
	}
	return errors.Join(a.ShowPage(newVerified(args[0], m, damage), o.Output, said), damage)
}

// verified is the JSON document of bundle verify: the manifest, and the damage of the archive. A manifest that cannot
// be read is absent.
type verified struct {
	diag.Head

	File     string `json:"file"`
	AsPacked bool   `json:"as_packed"`
	Why      string `json:"why,omitempty"`
	*evidence.Manifest
}

func newVerified(path string, m *evidence.Manifest, damage error) verified {
	v := verified{Head: diag.NewHead(evidence.KindBundle), File: path, AsPacked: damage == nil, Manifest: m}
	if damage != nil {
		v.Why = damage.Error()
	}
	return v
}

// openBundle reads and checks a bundle. A file that cannot be read is a usage error, a modified one is a finding; its
// manifest is returned if it can be read.
func openBundle(path string) (*evidence.Manifest, error) {
	f, err := bounded.Open(path)
	if err != nil {
		return nil, &cmdutil.UsageError{Err: fmt.Errorf("read the bundle: %w", err)}
	}
	defer f.Close()
	m, err := evidence.Open(f)
	switch {
	case errors.Is(err, evidence.ErrBundle):
		return m, &cmdutil.FailedError{Err: fmt.Errorf("%s: %w", path, err)}
	case err != nil:
		return nil, &cmdutil.UsageError{Err: fmt.Errorf("%s: %w", path, err)}
	}
	return m, nil
}
