package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight"
	"github.com/gpuaas/gpuaasctl/trust"
)

// trustHops are the hops whose facts the explanation stands on. None of them changes anything.
var trustHops = [...]diag.HopID{
	diag.HopControlPlaneAccess, diag.HopNodeHeartbeat, diag.HopNodeOpsAccess,
	diag.HopNodeRuntimeAPI, diag.HopNodeRecoveryStatus, diag.HopNodeTerminalReachability,
}

func newDiagTrust(a *app) *cobra.Command {
	o := &targetOptions{}
	var output, replay string
	cmd := &cobra.Command{
		Use:   "trust [NODE]",
		Short: "Put everything that a node and its platform trust side by side, and name the first link that does not match",
		Long: `Shows what the node API presents, what the node judges it by, who signed the node and whom the ingress takes, with
fingerprints and dates, and compares neighbours in order. The first link that does not match is named, with what moved
and how to put it right, the control plane before the nodes. What could not be measured is "-" and never counts as good.

Exit codes: 0 all links match, 2 usage or configuration, 3 a link does not match, 5 something could not be measured,
130 interrupted.`,
		Example: `  gpuaasctl diag trust compute-node-01 --profile lab
  gpuaasctl diag trust compute-node-01 --profile lab -o json
  gpuaasctl diag trust --replay preflight.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case replay != "" && len(args) > 0:
				return usagef("give NODE or --replay FILE, not both")
			case replay != "":
				return a.replayTrust(cmd.Context(), replay, output)
			case len(args) == 0:
				return &usageError{err: fmt.Errorf("NODE is missing: which node's trust is to be explained?"), command: cmd.CommandPath()}
			}
			j, err := a.target(cmd, o, args[0])
			if err != nil {
				return err
			}
			if err := j.needHost(); err != nil && (j.Env.Profile.APIBase == "" || j.Env.Profile.OtherNodes(args[0]) != "") {
				return err // with an API, and a profile that lists no nodes, the platform's half is explained
			}
			r, err := j.explainTrust(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.showTrust(r, output)
		},
	}
	o.flags(a, cmd)
	cmd.Flags().StringVar(&replay, "replay", "", "explain the facts of a recorded report, in `FILE` (or - for stdin), in place of measuring")
	formatFlag(cmd, &output, formatTable, formatTable, formatJSON)
	return cmd
}

// explainTrust walks the hops that it takes, asks what they do not, and explains. An interrupted one is an error: half
// a table is not worth a judgement.
func (j *job) explainTrust(ctx context.Context, o *targetOptions) (*trust.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, o.deadline)
	defer cancel()
	places := j.vantages()
	defer closeAll(ctx, places)
	e := &j.Env
	j.Plan = preflight.NewPlan(e.Profile, e.Subject, preflight.Options{
		Only: trustHops[:], Token: !e.Token.IsZero(), SSH: e.Subject.NodeHost != "",
	})
	var facts, more []diag.Fact
	var ended diag.EndedBy
	var wg sync.WaitGroup
	wg.Go(func() { facts, ended = preflight.Walk(ctx, e, j.Plan, places, nil) })
	wg.Go(func() {
		more = askTrust(ctx, places, e.Subject.NodeHost != "", trust.Ask(e.Subject, e.NodeCA, e.Profile.Trust.NodeCA))
		more = append(more, askTrust(ctx, places, e.Subject.NodeHost != "", trust.AskNext(e.Subject, more))...)
	})
	wg.Wait()
	if ended == diag.EndedInterrupted {
		return nil, context.Canceled
	}
	for i := range facts {
		if err := j.unknownNode(&facts[i]); err != nil && facts[i].ID == readModelFact {
			return nil, err
		}
	}
	r := trust.Explain(e.Subject, append(facts, more...))
	now := time.Now()
	r.Run = &diag.Run{
		ID: j.RunID, CorrelationID: e.CorrelationID, StartedAt: diag.At(j.Began), EndedAt: diag.At(now),
		DurationMS: diag.Measured(now.Sub(j.Began)), EndedBy: ended, ToolVersion: j.Tool, RulesVersion: preflight.RulesVersion,
	}
	return r, nil
}

// askTrust sends each question to its vantage. A node without a host is not asked: nothing is known of it.
func askTrust(ctx context.Context, places map[string]preflight.Vantage, host bool, qs []trust.Question) []diag.Fact {
	byPlace := map[string][]diag.Request{}
	for _, q := range qs {
		if q.From == preflight.Node && !host {
			continue
		}
		byPlace[q.From] = append(byPlace[q.From], q.Request)
	}
	var mu sync.Mutex // guards facts
	var facts []diag.Fact
	var wg sync.WaitGroup
	for from, reqs := range byPlace {
		wg.Go(func() {
			got := places[from].Probe(ctx, reqs)
			mu.Lock()
			defer mu.Unlock()
			facts = append(facts, got...)
		})
	}
	wg.Wait()
	return facts
}

// replayTrust explains a report of `preflight` or of this command once more. Nothing is measured.
func (a *app) replayTrust(ctx context.Context, path, output string) error {
	data, err := a.readAll(ctx, path)
	if err != nil {
		return &usageError{err: err}
	}
	r, err := recordedTrust(data)
	if err != nil {
		return &usageError{err: fmt.Errorf("%s: %w", path, err)}
	}
	return a.showTrust(r, output)
}

// recordedTrust tells the two kinds of report apart by their own word.
func recordedTrust(data []byte) (*trust.Report, error) {
	var doc struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("no report: %w", err)
	}
	switch doc.Kind {
	case diag.KindPreflight:
		recorded, err := parseReport(data)
		if err != nil {
			return nil, err
		}
		r := trust.Explain(recorded.Subject, recorded.Facts)
		r.Run = &recorded.Run
		return r, nil
	case trust.Kind:
		recorded := &trust.Report{}
		if err := strictJSON(data, recorded); err != nil {
			return nil, err
		}
		r := trust.Explain(recorded.Subject, recorded.Facts)
		r.Run = recorded.Run
		return r, nil
	}
	return nil, fmt.Errorf("want a %s or a %s, have %q", diag.KindPreflight, trust.Kind, doc.Kind)
}

// showTrust writes the explanation, and makes the exit code of its outcome.
func (a *app) showTrust(r *trust.Report, output string) error {
	if output == formatJSON {
		if err := a.writeJSON(r); err != nil {
			return err
		}
	} else {
		text, err := trustTable(r, a.look(output))
		if err == nil {
			err = a.write(text)
		}
		if err != nil {
			return err
		}
	}
	switch r.Verdict.Outcome {
	case trust.Mismatch:
		return &verdictError{exitFailed}
	case trust.Unclear:
		return &verdictError{exitInconclusive}
	}
	return nil
}
