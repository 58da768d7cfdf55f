package diagcmd

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/ops"
)

// classifyOptions are the options of a classification.
type classifyOptions struct {
	target       cmdutil.TargetOptions
	allocationID string
	explain      bool
	output, fail string
}

// kindClassification heads the JSON document.
const kindClassification = "Classification"

// classified is the JSON document of diag classify: what was classified, and the result.
type classified struct {
	diag.Head

	From           string               `json:"from"` // walk | report | bundle | record
	NodeID         string               `json:"node_id,omitempty"`
	Classification *diag.Classification `json:"classification"`
}

func newDiagClassify(a *cmdutil.App) *cobra.Command {
	o := &classifyOptions{}
	cmd := &cobra.Command{
		Use:   "classify [NODE [ALLOCATION] | FILE]",
		Short: "Name the one reason behind a node's state, its owner and what to do",
		Long: `Turns all evidence about a node into one operator reason: user state, severity, budgets, owner, next action, the
five points that make a node healthy, and with --explain what decided and which reasons lost, and why.

FILE is a report, a bundle, a record's file, a folder with a record, or what diag show or decode wrote of one as JSON;
- is stdin. NODE is walked first, without a terminal session. A name that is both is the file; --node-id is always a node.

Exit codes: 0 healthy, or a warning (P2, while all five points pass and no hop fails), 2 usage or configuration, 3 there
is a reason, 4 a warning, under --fail-on warn, 5 not enough is known (healthy takes all five points, and so does a
warning), 130 interrupted.`,
		Example: `  gpuaasctl diag classify compute-node-01 --profile lab --explain
  gpuaasctl diag classify preflight.json -o json
  gpuaasctl diag classify /mnt/dead-node/var/lib/gpuaas/diag`,
		Args: cmdutil.Args(0, 2),
		RunE: cmdutil.Run(a, o, runClassify),
	}
	o.target.Flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&o.allocationID, "allocation-id", "",
		"an allocation on the node, by `ID`: its workload and route are evidence")
	f.BoolVar(&o.explain, "explain", false, "show what decided, the checklist, and the reasons that lost")
	cmdutil.FormatFlag(cmd, &o.output, cmdutil.FormatTable, cmdutil.FormatTable, cmdutil.FormatJSON)
	cmdutil.ChoiceFlag(cmd, &o.fail, "fail-on", "", "", "exit 4 on `WHAT`: "+cmdutil.FailOnWarn, cmdutil.FailOnWarn)
	cmd.ValidArgsFunction = a.CompleteNode(&o.target.Profile, true)
	return cmd
}

// runClassify reads a file, or walks a node, and writes the reason.
func runClassify(a *cmdutil.App, cmd *cobra.Command, o *classifyOptions, args []string) error {
	var doc *classified
	var err error
	if len(args) == 1 && o.target.NodeID == "" {
		doc, err = classifyFile(a, cmd.Context(), args[0])
	}
	if doc == nil && err == nil {
		doc, err = classifyNode(a, cmd, o, args)
	}
	if err != nil {
		return err
	}
	if err := printClassified(a, doc, o); err != nil {
		return err
	}
	return cmdutil.JudgedReason(doc.Classification, o.fail == cmdutil.FailOnWarn)
}

func printClassified(a *cmdutil.App, doc *classified, o *classifyOptions) error {
	return a.Show(doc, a.RenderOptions(o.output), func(w io.Writer, look render.Options) error {
		if o.explain {
			look.Format = render.Wide
		}
		return render.Classification(w, doc.Classification, look)
	})
}

// classifyNode walks all hops that can run without a terminal session.
func classifyNode(a *cmdutil.App, cmd *cobra.Command, o *classifyOptions, args []string) (*classified, error) {
	s, err := a.Target(cmd, &o.target, args, ops.Target{Allocation: o.allocationID})
	if err != nil {
		return nil, err
	}
	if err := s.RequireHost(); err != nil && s.Site().Profile.APIBase == "" {
		return nil, cmdutil.Usagef("%s is not a file, and %w", s.Subject().NodeID, a.WithHint(err))
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.target.Deadline)
	defer cancel()
	r := s.Walk(ctx, ops.WalkOptions{}, nil)
	if r.Run.EndedBy == diag.EndedInterrupted {
		return nil, context.Canceled
	}
	if err := s.KnownNode(r.Facts); err != nil {
		return nil, err
	}
	return &classified{Head: diag.NewHead(kindClassification), From: "walk", NodeID: s.Subject().NodeID,
		Classification: r.Classification}, nil
}

// isFile reports whether what is the path of an existing file.
func isFile(what string) bool {
	if what == "-" {
		return true
	}
	_, err := os.Stat(what)
	return err == nil
}
