package diagcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/trust"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// trustOptions select the node, or a recorded report.
type trustOptions struct {
	cmdutil.TargetOptions
	output, replay string
}

func newDiagTrust(a *cmdutil.App) *cobra.Command {
	o := &trustOptions{}
	cmd := &cobra.Command{
		Use:   "trust [NODE|REPORT]",
		Short: "Compare what a node and its platform trust, and name the first broken link",
		Long: `Shows the certificate of the node API, the node's CA bundle, the issuer of the node's certificate and the CAs that the
ingress accepts, with fingerprints and dates, and compares neighbours in order. It names the first link that does not
match, what changed and how to repair it, the control plane before the nodes. What could not be measured is "-" and never counts as good.
REPORT, a recorded report of preflight or of this command (- is stdin), is explained instead of measuring.

Exit codes: 0 all links match, 2 usage or configuration, 3 a link does not match, 5 something could not be measured,
130 interrupted.`,
		Example: `  gpuaasctl diag trust compute-node-01 --profile lab
  gpuaasctl diag trust compute-node-01 --profile lab -o json
  gpuaasctl diag trust preflight.json`,
		Args: cmdutil.Args(0, 1),
		RunE: cmdutil.Run(a, o, explainTrust),
	}
	o.Flags(a, cmd)
	cmd.Flags().StringVar(&o.replay, "replay", "",
		"explain the facts of a recorded report, in `FILE` (or - for stdin), in place of measuring")
	cmdutil.PageFlag(cmd, &o.output)
	return cmd
}

func explainTrust(a *cmdutil.App, cmd *cobra.Command, o *trustOptions, args []string) error {
	switch {
	case o.replay != "" && len(args) > 0:
		return cmdutil.Usagef("give NODE or --replay FILE, not both")
	case o.replay != "":
		return replayTrust(a, cmd.Context(), o.replay, o.output)
	case len(args) > 0 && o.NodeID == "" && cmdutil.IsRecording(args[0]):
		return replayTrust(a, cmd.Context(), args[0], o.output)
	}
	s, err := a.Target(cmd, &o.TargetOptions, args, ops.Target{})
	if err != nil {
		return err
	}
	if err := s.RequireHost(); err != nil &&
		(s.Site().Profile.APIBase == "" || s.Site().Profile.OtherNodes(s.Subject().NodeID) != "") {
		return err // with an API, and a profile without nodes, only the platform's half is explained
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.Deadline)
	defer cancel()
	r, err := s.Trust(ctx)
	if err != nil {
		return err
	}
	return showTrust(a, r, o.output)
}

// replayTrust explains a report of `preflight` or of this command again. Nothing is measured.
func replayTrust(a *cmdutil.App, ctx context.Context, path, output string) error {
	r, err := cmdutil.Read(ctx, a, path, func(data []byte) (*trust.Report, error) { return recordedTrust(a, data) })
	if err != nil {
		return err
	}
	return showTrust(a, r, output)
}

// recordedTrust tells the two kinds of report apart by their kind field.
func recordedTrust(a *cmdutil.App, data []byte) (*trust.Report, error) {
	var doc struct {
		Kind string `json:"kind"`
	}
	if err := bounded.Unmarshal(data, &doc, bounded.Document()); err != nil {
		return nil, fmt.Errorf("no report: %w", err)
	}
	switch doc.Kind {
	case diag.KindPreflight:
		recorded, err := a.ParseReport(data)
		if err != nil {
			return nil, err
		}
		if why := verdict.Reduced(recorded); why != "" {
			return nil, errors.New(why)
		}
		r := trust.Explain(recorded.Subject, recorded.Facts)
		r.Run = &recorded.Run
		return r, nil
	case trust.Kind:
		recorded := &trust.Report{}
		unknown, err := cmdutil.ReadJSON(data, recorded)
		if err != nil {
			return nil, err
		}
		a.NoteUnknown(trust.Kind, "", unknown)
		r := trust.Explain(recorded.Subject, recorded.Facts)
		r.Run = recorded.Run
		return r, nil
	}
	return nil, fmt.Errorf("want a %s or a %s, have %q", diag.KindPreflight, trust.Kind, doc.Kind)
}

// showTrust writes the explanation, and returns the exit code of its outcome.
func showTrust(a *cmdutil.App, r *trust.Report, output string) error {
	if err := a.ShowPage(r, output, trustPage(r)...); err != nil {
		return err
	}
	switch r.Verdict.Outcome {
	case trust.Mismatch:
		return &cmdutil.VerdictError{Code: cmdutil.ExitFailed}
	case trust.Unclear:
		return &cmdutil.VerdictError{Code: cmdutil.ExitInconclusive}
	}
	return nil
}
