package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/profile"
)

// warmChild walks several times over the same vantages, and prints the walks' durations as a JSON list of
// nanoseconds. The first walk is cold.
func warmChild(ctx context.Context, o options) error {
	p, _, err := profile.ReadFile(o.profile)
	if err != nil {
		return err
	}
	p = p.WithDefaults()
	token, err := profile.ReadSecret(context.Background(), p.Auth.TokenFile)
	if err != nil {
		return err
	}
	subject := hop.NewSubject(p, labNode, "", allocation, "")
	env := hop.Env{Profile: p, Subject: subject, CorrelationID: "bench-warm", Token: token,
		Scrub: func(s string) string { return scrub.Line(s, nil) }}
	plan := hops.BuiltIn().NewPlan(p, subject, hop.Options{Session: o.session, Token: true, SSH: true})
	operator := vantage.Operator(&probe.Prober{Vantage: hop.Operator})
	node := vantage.NewNode(vantage.NodeConfig{ID: labNode, Host: subject.NodeHost, SSH: p.SSH, Agent: p.Agent})
	defer func() { _, _ = operator.Close(), node.Close() }()
	places := map[string]hop.Vantage{hop.Operator: operator, hop.Node: node}

	var took []time.Duration
	var last diag.Report
	for i := range o.walks {
		env.ReusesVantage = i > 0
		began := time.Now()
		facts, ended := walk.Walk(ctx, &env, plan, places, nil)
		took = append(took, time.Since(began))
		r := diag.Report{Subject: subject, Plan: plan, Facts: facts, Run: diag.Run{StartedAt: diag.At(began), EndedBy: ended}}
		verdict.Judge(hops.BuiltIn(), &r)
		last = r
		if r.Verdict.Outcome != diag.OutcomePass && r.Verdict.Outcome != diag.OutcomeWarn {
			return fmt.Errorf("a walk did not pass: %s %s", r.Verdict.Outcome, r.Verdict.FirstFailedHop)
		}
	}
	if o.report != "" {
		data, err := json.Marshal(last)
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.report, data, 0o600); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(took)
}
