package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// classifyOptions is what a classification is asked for.
type classifyOptions struct {
	target       targetOptions
	allocationID string
	explain      bool
	output, fail string
}

// kindClassification heads the JSON document.
const kindClassification = "Classification"

// classified is the JSON document of diag classify: what was classified, and how.
type classified struct {
	APIVersion     string               `json:"apiVersion"`
	Kind           string               `json:"kind"`
	From           string               `json:"from"` // walk | report | bundle | record
	NodeID         string               `json:"node_id,omitempty"`
	Classification *diag.Classification `json:"classification"`
}

func newDiagClassify(a *app) *cobra.Command {
	o := &classifyOptions{}
	cmd := &cobra.Command{
		Use:   "classify FILE|NODE",
		Short: "Name the one reason behind a node's state, its owner and what to do",
		Long: `Turns all evidence about a node into one operator reason: user state, severity, budgets, owner, next action, the
five points that make a node healthy, and with --explain what decided and which reasons lost, and why.

FILE is a report, a bundle, a record's file, a folder with a record, or what diag show or decode wrote of one as JSON;
- is stdin. NODE is walked first, without a terminal session. A name that is both is the file; ./NAME is always one.

Exit codes: 0 healthy, or a warning (P2, while all five points pass and no hop fails), 2 usage or configuration, 3 there
is a reason, 4 a warning, under --fail-on warn, 5 not enough is known (healthy takes all five points, and so does a
warning), 130 interrupted.`,
		Example: `  gpuaasctl diag classify compute-node-01 --profile lab --explain
  gpuaasctl diag classify preflight.json -o json
  gpuaasctl diag classify /mnt/dead-node/var/lib/gpuaas/diag`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.classify(cmd, o, args[0]) },
	}
	o.target.flags(a, cmd)
	f := cmd.Flags()
	f.StringVar(&o.allocationID, "allocation-id", "", "an allocation on the node, by `ID`: its workload and route are evidence")
	f.BoolVar(&o.explain, "explain", false, "show what decided, the checklist, and the reasons that lost")
	formatFlag(cmd, &o.output, formatTable, formatTable, formatJSON)
	choiceFlag(cmd, &o.fail, "fail-on", "", "", "exit 4 on `WHAT`: "+failOnWarn, failOnWarn)
	nodes := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		names, _ := nodes(cmd, args, word)
		return names, cobra.ShellCompDirectiveDefault // files as well
	}
	return cmd
}

// classify reads a file, or walks a node, and says the reason.
func (a *app) classify(cmd *cobra.Command, o *classifyOptions, what string) error {
	doc, err := a.classifyFile(cmd.Context(), what)
	if doc == nil && err == nil {
		doc, err = a.classifyNode(cmd, o, what)
	}
	if err != nil {
		return err
	}
	if err := a.printClassified(doc, o); err != nil {
		return err
	}
	return judgedReason(doc.Classification, o.fail == failOnWarn)
}

func (a *app) printClassified(doc *classified, o *classifyOptions) error {
	var b bytes.Buffer
	if o.output == formatJSON {
		if err := render.WriteJSON(&b, doc); err != nil {
			return err
		}
		return a.write(b.Bytes())
	}
	look := a.look(formatTable)
	if o.explain {
		look.Format = render.Wide
	}
	if err := render.Classification(&b, doc.Classification, look); err != nil {
		return fmt.Errorf("render classification: %w", err)
	}
	return a.write(b.Bytes())
}

// readModelFact is the id of a walk's question for the node.
const readModelFact = string(diag.HopNodeHeartbeat) + "/read_model"

// classifyNode walks what there is to walk, without a terminal session.
func (a *app) classifyNode(cmd *cobra.Command, o *classifyOptions, node string) (*classified, error) {
	j, err := a.target(cmd, &o.target, node)
	if err != nil {
		return nil, err
	}
	if err := checkIDs(&preflightOptions{allocationID: o.allocationID}); err != nil {
		return nil, &usageError{err: err, command: cmd.CommandPath()}
	}
	j.Env.Subject = preflight.NewSubject(j.Env.Profile, node, o.target.nodeHost, o.allocationID, "")
	if err := j.needHost(); err != nil && j.Env.Profile.APIBase == "" {
		return nil, usagef("%s is not a file, and %w", node, err)
	}
	j.Plan = preflight.NewPlan(j.Env.Profile, j.Env.Subject, preflight.Options{
		Token: !j.Env.Token.IsZero(), SSH: j.Env.Subject.NodeHost != "",
	})
	ctx, cancel := context.WithTimeout(cmd.Context(), o.target.deadline)
	defer cancel()
	j.Vantages = j.vantages()
	defer closeAll(ctx, j.Vantages)
	r := preflight.Run(ctx, &j.Job)
	if r.Run.EndedBy == diag.EndedInterrupted {
		return nil, context.Canceled
	}
	for i := range r.Facts {
		if f := &r.Facts[i]; f.ID == readModelFact {
			if err := j.unknownNode(f); err != nil {
				return nil, err
			}
		}
	}
	return &classified{APIVersion: diag.APIVersion, Kind: kindClassification, From: "walk", NodeID: node, Classification: r.Classification}, nil
}

// judgedReason is the error for a classification: nil for a healthy node, and for a warning unless warnings count. That
// users hardly feel a reason, or that it may pass by itself, makes it no smaller a fault: a hop fails with it.
func judgedReason(c *diag.Classification, warnings bool) error {
	switch {
	case c.Healthy, c.Warning && !warnings:
		return nil
	case c.Warning:
		return &verdictError{exitWarned}
	case c.NeedsSomebody():
		return &verdictError{exitFailed}
	}
	return &verdictError{exitInconclusive}
}

// isFile reports whether what names something on this machine.
func isFile(what string) bool {
	if what == "-" {
		return true
	}
	_, err := os.Stat(what)
	return err == nil
}
