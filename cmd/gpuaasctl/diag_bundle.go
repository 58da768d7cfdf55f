package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/evidence"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// historyOptions is whose history is wanted, and of which time.
type historyOptions struct {
	target                      targetOptions
	allocationID, correlationID string
	since                       time.Duration
}

// defaultSince is how far back is looked: most calls come within the hour.
const defaultSince = time.Hour

// maxSince bounds --since: nobody keeps more.
const maxSince = 90 * 24 * time.Hour

func (o *historyOptions) flags(a *app, cmd *cobra.Command) {
	o.target.flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&o.allocationID, "allocation-id", "", "an allocation on the node, by `ID`")
	f.StringVar(&o.correlationID, "correlation-id", "", "correlation `ID` of the failing request")
	f.DurationVar(&o.since, "since", defaultSince, "look back over this `TIME`")
}

// prepare makes the job; it touches no network.
func (o *historyOptions) prepare(a *app, cmd *cobra.Command, node string) (*job, error) {
	if o.since <= 0 || o.since > maxSince {
		return nil, &usageError{err: fmt.Errorf("--since: want more than nothing and at most %s, not %s", maxSince, o.since), command: cmd.CommandPath()}
	}
	if err := checkIDs(&preflightOptions{allocationID: o.allocationID, correlationID: o.correlationID}); err != nil {
		return nil, &usageError{err: err, command: cmd.CommandPath()}
	}
	j, err := a.target(cmd, &o.target, node)
	if err != nil {
		return nil, err
	}
	s := &j.Env.Subject
	*s = preflight.NewSubject(j.Env.Profile, s.NodeID, o.target.nodeHost, o.allocationID, "")
	s.CorrelationID = o.correlationID
	if err := j.needHost(); err != nil && j.Env.Profile.APIBase == "" {
		return nil, err
	}
	return j, nil
}

// bundleOptions is where the archive goes.
type bundleOptions struct {
	history historyOptions
	file    string
	output  string
}

func newDiagBundle(a *app) *cobra.Command {
	o := &bundleOptions{}
	cmd := &cobra.Command{
		Use:   "bundle NODE",
		Short: "Gather all evidence about a node into one archive",
		Long: `Asks everybody who can have seen something (the node, its agent's record and journal, the platform's API, evidence and
logs, the ingress), walks the hop chain once, joins it all into one timeline and packs it with a manifest of digests.
README.txt in the archive tells the story. Secrets are taken out where they are read, and the manifest says where.

Who does not answer costs his own deadline and nobody else's; what is missing is said. Existing files are never replaced.

Exit codes: 0 every source answered, 1 it could be written nowhere (what was heard is listed), 2 usage or configuration,
3 neither the node nor the platform said anything (what little there is was written), 5 a partial bundle was written, or
FILE could not be and it is in $TMPDIR under a name that is said, 130 interrupted (a partial bundle was written).`,
		Example: `  gpuaasctl diag bundle compute-node-01 --profile lab --allocation-id alloc-01
  gpuaasctl diag bundle compute-node-01 --profile lab --correlation-id ID --since 6h -O case-4711.tar.gz
  gpuaasctl diag bundle verify case-4711.tar.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.bundle(cmd, o, args[0]) },
	}
	o.history.flags(a, cmd)
	cmd.Flags().StringVarP(&o.file, "file", "O", "", "write the archive to `FILE` (default: evidence-NODE-TIME.tar.gz here)")
	formatFlag(cmd, &o.output, formatTable, formatTable, formatJSON)
	cmd.AddCommand(newBundleVerify(a))
	return cmd
}

// bundle hears everybody and writes what they said, also when it is interrupted.
func (a *app) bundle(cmd *cobra.Command, o *bundleOptions, node string) error {
	j, err := o.history.prepare(a, cmd, node)
	if err != nil {
		return err
	}
	if o.file == "" {
		o.file = fmt.Sprintf("evidence-%s-%s.tar.gz", node, j.Began.UTC().Format("20060102T150405Z"))
	}
	if err := checkNewFile(o.file); err != nil {
		return &usageError{err: err, command: cmd.CommandPath()}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.history.target.deadline)
	defer cancel()
	since := j.Began.Add(-o.history.since)
	w := j.hear(ctx, since, true)
	if err := j.unknownNode(&w.node); err != nil {
		return err
	}
	by := diag.EndedCompleted
	switch {
	case cmd.Context().Err() != nil:
		by = diag.EndedInterrupted
	case ctx.Err() != nil:
		by = diag.EndedDeadline
	}
	packed, err := newArchive(j, w, since, time.Now(), by)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := evidence.Pack(&b, packed.m); err != nil {
		return fmt.Errorf("pack the bundle: %w", err)
	}
	wanted := o.file
	lost := a.saveBundle(o, b.Bytes())
	if err := a.showBundle(packed.m, o, b.Len()); err != nil || lost != nil {
		return errors.Join(lost, err)
	}
	if err := gatheredCode(packed.m); err != nil || o.file == wanted {
		return err
	}
	return &verdictError{exitInconclusive}
}

// saveBundle writes the archive to o.file. Where that cannot be (a full disk, another run that was faster), it goes to
// the folder for temporary files, o.file says so, and so does a note: what is gathered cannot be gathered again. An error
// means that it is nowhere, and o.file is empty.
func (a *app) saveBundle(o *bundleOptions, data []byte) error {
	why := writeNewFile(o.file, data)
	if why == nil {
		return nil
	}
	elsewhere := filepath.Join(cmp.Or(a.env("TMPDIR"), os.TempDir()), strings.TrimSuffix(filepath.Base(o.file), ".tar.gz")+"-"+preflight.NewID("kept")+".tar.gz")
	if err := writeNewFile(elsewhere, data); err != nil {
		o.file = ""
		return fmt.Errorf("write the bundle: %w", errors.Join(why, err))
	}
	note(a.stderr, "%s could not be written (%v); the bundle is in %s", o.file, why, elsewhere)
	o.file = elsewhere
	return nil
}

// gatheredCode is the exit code of asking everybody.
func gatheredCode(m *evidence.Manifest) error {
	if m.EndedBy == diag.EndedInterrupted {
		return &verdictError{exitInterrupted}
	}
	return wholeCode(m)
}

// wholeCode is the exit code of what is there: what was heard, now or when a bundle was made.
func wholeCode(m *evidence.Manifest) error {
	if m.Whole {
		return nil
	}
	for _, g := range m.Sources {
		if g.Source != "preflight" && (g.Status == evidence.GotWhole || g.Status == evidence.GotPart) {
			return &verdictError{exitInconclusive}
		}
	}
	return &verdictError{exitFailed}
}

func (a *app) showBundle(m *evidence.Manifest, o *bundleOptions, size int) error {
	if o.output == formatJSON {
		b, err := json.MarshalIndent(struct {
			File string `json:"file"`
			Size int    `json:"size"`
			*evidence.Manifest
		}{o.file, size, m}, "", "  ")
		if err != nil {
			return err
		}
		return a.write(append(b, '\n'))
	}
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
	text := columnsIn(rows, width(a.stdout))
	if o.file == "" {
		return a.write(append(text, "\nthe bundle is not written\n"...))
	}
	text = fmt.Appendf(text, "\n%s: %s, %s bytes, %d files; begin with README.txt\n", o.file, whole, strconv.Itoa(size), len(m.Files)+1)
	return a.write(text)
}

func newBundleVerify(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a bundle against its manifest",
		Long: `Reads every file of a bundle and compares it with the manifest's digest.

Exit codes: 0 it is as it was packed, 2 usage, or it cannot be read or is not a bundle, 3 it is not as it was packed
(what differs is named; with -o json the document says so).`,
		Example: `  gpuaasctl diag bundle verify case-4711.tar.gz`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			m, damage := openBundle(args[0])
			var failed *failedError
			if damage != nil && !errors.As(damage, &failed) {
				return damage
			}
			if output == formatJSON {
				b, err := json.MarshalIndent(newVerified(args[0], m, damage), "", "  ")
				if err != nil {
					return err
				}
				return errors.Join(a.write(append(b, '\n')), damage)
			}
			if damage != nil {
				return damage
			}
			return a.write(fmt.Appendf(nil, "%s is as it was packed: %d files about node %s, run %s\n", args[0], len(m.Files)+1, m.NodeID, m.RunID))
		},
	}
	formatFlag(cmd, &output, formatTable, formatTable, formatJSON)
	return cmd
}

// verified is the JSON document of bundle verify: the manifest, and what is wrong with the archive. A manifest that
// cannot be read is absent.
type verified struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	File       string `json:"file"`
	AsPacked   bool   `json:"as_packed"`
	Why        string `json:"why,omitempty"`
	*evidence.Manifest
}

func newVerified(path string, m *evidence.Manifest, damage error) verified {
	v := verified{APIVersion: diag.APIVersion, Kind: evidence.KindBundle, File: path, AsPacked: damage == nil, Manifest: m}
	if damage != nil {
		v.Why = damage.Error()
	}
	return v
}

// openBundle reads and checks a bundle: a file that cannot be read is the caller's mistake, one that was changed is a
// finding, and its manifest is returned where it can be read.
func openBundle(path string) (*evidence.Manifest, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("read the bundle: %w", err)}
	}
	defer func() { _ = f.Close() }()
	m, err := evidence.Open(f)
	switch {
	case errors.Is(err, evidence.ErrBundle):
		return m, &failedError{fmt.Errorf("%s: %w", path, err)}
	case err != nil:
		return nil, &usageError{err: fmt.Errorf("%s: %w", path, err)}
	}
	return m, nil
}

// checkNewFile refuses, before anything is asked, a path that is taken or has no folder.
func checkNewFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("-O: %s exists, and is not replaced", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("-O: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("-O: %s is no folder", filepath.Dir(path))
	}
	return nil
}

// writeNewFile writes path whole or not at all, readable by its owner alone, and never replaces what is there: the
// finished file gets its name by a link, which fails where the name is taken.
func writeNewFile(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+preflight.NewID("new"))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(temp, path)
		if err != nil && !errors.Is(err, fs.ErrExist) { // a file system without links
			if err = checkNewFile(path); err == nil {
				return os.Rename(temp, path)
			}
		}
	}
	return errors.Join(err, os.Remove(temp))
}
