// Command demo shows the live table with a walk that measures nothing, for looking at it on terminals of any size:
//
//	go run ./cmd/gpuaasctl/tui/internal/demo [-fail node_runtime_api_reachability] [-pace 3s]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/tui"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight"
)

func main() { os.Exit(run()) }

func run() int {
	fail := flag.String("fail", "", "let the node's steps of this hop fail")
	pace := flag.Duration("pace", 3*time.Second, "how long the walk takes")
	ascii := flag.Bool("ascii", false, "draw with ASCII only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	d := demo{plan: plan(), fail: diag.HopID(*fail), pace: *pace}
	r, err := tui.Run(ctx, tui.Options{
		Plan: d.plan, Subject: subject(), Report: render.Options{Color: os.Getenv("NO_COLOR") == "", ASCII: *ascii},
	}, d.walk)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	if r.Verdict.Outcome == diag.OutcomeFail {
		return 3
	}
	return 0
}

func subject() diag.Subject {
	return diag.Subject{NodeID: "compute-node-01", NodeHost: "10.231.77.101", AllocationID: "alloc-01",
		EnvironmentProfile: "lab"}
}

func plan() diag.Plan {
	p := diag.Plan{Profile: "lab"}
	for i, hop := range preflight.Chain() {
		h := diag.PlannedHop{ID: hop.ID, BudgetMS: 8000, Vantages: []string{preflight.Operator}, Steps: []string{"look"}}
		switch {
		case i%6 == 4:
			h.Vantages, h.Steps = []string{preflight.Node}, []string{"disk", "process", "clock"}
		case i%6 == 5:
			h.Vantages, h.Steps = []string{preflight.Operator, preflight.Node}, []string{"http", "control"}
		}
		if !hop.Built() {
			h.Skip, h.BudgetMS = "not built yet: GPU facts come from gpuaas-gpu-probe", 10_000
		}
		p.Hops = append(p.Hops, h)
	}
	return p
}

// demo is a walk that only waits.
type demo struct {
	plan diag.Plan
	fail diag.HopID
	pace time.Duration
}

func (d demo) walk(ctx context.Context, observe func(preflight.Event)) *diag.Report {
	start := time.Now()
	results := make([]diag.HopResult, len(d.plan.Hops))
	var mu sync.Mutex // guards calls of observe
	tell := func(e preflight.Event) {
		mu.Lock()
		defer mu.Unlock()
		e.At = time.Since(start)
		observe(e)
	}
	var wg sync.WaitGroup
	for i, h := range d.plan.Hops {
		wg.Go(func() {
			results[i] = d.hop(ctx, i, h, tell)
			tell(preflight.Event{Kind: preflight.HopDone, Hop: h.ID, Result: results[i]})
		})
	}
	wg.Wait()
	return d.report(ctx, results, time.Since(start))
}

func (d demo) hop(ctx context.Context, i int, h diag.PlannedHop, tell func(preflight.Event)) diag.HopResult {
	r := diag.HopResult{ID: h.ID, BudgetMS: h.BudgetMS,
		Finding: diag.Finding{Status: diag.StatusPass, Text: "as it should be"}}
	if h.Skip != "" {
		r.Finding = diag.Finding{Status: diag.StatusSkipped, Because: h.Skip}
		return r
	}
	began := time.Now()
	wait(ctx, time.Duration(i/3)*d.pace/8)
	tell(preflight.Event{Kind: preflight.HopStarted, Hop: h.ID})
	for k, name := range h.Steps {
		at := time.Now()
		wait(ctx, d.pace/6)
		s := diag.StepResult{Name: name, Vantage: h.Vantages[k%len(h.Vantages)], Status: diag.StatusPass,
			DurationMS: diag.Measured(time.Since(at))}
		if ctx.Err() != nil {
			s.Status, s.Because = diag.StatusInconclusive, "cut short: interrupted"
			r.Finding = diag.Finding{Status: diag.StatusInconclusive, Because: name + ": cut short: interrupted"}
		} else if h.ID == d.fail && s.Vantage == preflight.Node {
			s.Status, s.Failure = diag.StatusFail, diag.TCPTimeout
			r.Finding = diag.Finding{Status: diag.StatusFail, Signal: diag.SigAPIUnreachable, Failure: diag.TCPTimeout,
				Text: "node-api.gpuaas.test:443 does not answer the node"}
		}
		r.Steps = append(r.Steps, s)
		tell(preflight.Event{Kind: preflight.StepDone, Hop: h.ID, Step: s})
	}
	r.DurationMS = diag.Measured(time.Since(began))
	return r
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (d demo) report(ctx context.Context, hops []diag.HopResult, took time.Duration) *diag.Report {
	r := &diag.Report{
		Head: diag.NewHead(diag.KindPreflight), Subject: subject(), Plan: d.plan, Hops: hops,
		Run: diag.Run{ID: "demo", CorrelationID: "pf-demo", DurationMS: diag.Measured(took),
			EndedBy: diag.EndedCompleted},
		Vantages: []diag.VantageInfo{{ID: preflight.Operator, How: "in process"},
			{ID: preflight.Node, How: "ssh root@10.231.77.101:22"}},
		Verdict: diag.Verdict{Outcome: diag.OutcomePass, UserState: diag.UserNormal, Reason: diag.ReasonNone},
	}
	if ctx.Err() != nil {
		r.Run.EndedBy, r.Verdict.Outcome = diag.EndedInterrupted, diag.OutcomeInconclusive
	}
	for _, h := range hops {
		if h.Status != diag.StatusFail {
			continue
		}
		row, _ := diag.LookupSignal(h.Signal)
		r.Verdict = diag.Verdict{
			Outcome: diag.OutcomeFail, FirstFailedHop: h.ID, Owner: row.Owners.String(), Reason: row.Reason,
			UserState: diag.UserTemporary, Blame: &diag.Blame{Hop: h.ID, Signal: h.Signal, Failure: h.Failure, Text: h.Text},
			Confidence: diag.Possible,
		}
	}
	return r
}
