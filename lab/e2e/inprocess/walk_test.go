//go:build linux

package inprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
	"github.com/gpuaas/gpuaasctl/profile"
)

// walkLimit ends a walk that hangs; no test lets a walk come near it.
const walkLimit = 2 * time.Minute

// job is one walk, prepared as by the command line.
type job struct {
	env             hop.Env
	plan            diag.Plan
	operator, node  hop.Vantage
	observe         func(walk.Event)
	began           time.Time
	took, closeTook time.Duration
}

// scrubLine is the Env's scrub function, as the tool sets it.
func scrubLine(text string) string { return scrub.Line(text, nil) }

// prepare reads the profile and creates vantages for one walk.
func (w *world) prepare(t testing.TB) *job {
	t.Helper()
	p, _, err := profile.Load(w.profile, profile.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	j := &job{began: time.Now()}
	token, errToken := profile.ReadSecret(t.Context(), p.Auth.TokenFile)
	cookie, errCookie := profile.ReadSecret(t.Context(), p.Auth.EdgeCookieFile)
	ca, errCA := os.ReadFile(p.Trust.NodeCA)
	for _, err := range []error{errToken, errCookie, errCA} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p = p.WithDefaults()
	j.env = hop.Env{Profile: p, Subject: hop.NewSubject(p, nodeID, "", alloc, ""), Scrub: scrubLine,
		CorrelationID: fmt.Sprintf("walk-%d", j.began.UnixNano()), Token: token, Cookie: cookie, NodeCA: string(ca)}
	j.plan = hops.BuiltIn().NewPlan(p, j.env.Subject, hop.Options{Session: true, Token: true, SSH: true})
	j.operator = vantage.Operator(&probe.Prober{Vantage: hop.Operator, Start: j.began})
	j.node = vantage.NewNode(vantage.NodeConfig{ID: nodeID, Host: j.env.Subject.NodeHost, SSH: p.SSH, Agent: p.Agent,
		Version: sshtest.Version, HelperDirs: []string{w.helpers}, Start: j.began, ConfigFile: "none", AgentSocket: "none",
		ConnectTimeout: time.Minute, HelloTimeout: time.Minute}) // for a busy machine; a hop has its own budget
	return j
}

// run walks, closes the vantages, and judges.
func (j *job) run(ctx context.Context, t testing.TB) *diag.Report {
	t.Helper()
	facts, ended := walk.Walk(ctx, &j.env, j.plan,
		map[string]hop.Vantage{hop.Operator: j.operator, hop.Node: j.node}, j.observe)
	j.took = time.Since(j.began)
	var evidence []diag.EvidenceLine
	if ctx.Err() == nil {
		evidence, _ = walk.Evidence(ctx, &j.env, j.operator)
	}
	closing := time.Now()
	for _, v := range []hop.Vantage{j.node, j.operator} {
		closeVantage(t, v)
	}
	j.closeTook = time.Since(closing)
	now := time.Now()
	r := &diag.Report{
		Head: diag.NewHead(diag.KindPreflight), Subject: j.env.Subject, Plan: j.plan, Facts: facts, Evidence: evidence,
		Vantages: []diag.VantageInfo{}, Redaction: diag.Redaction{Rules: []string{}, Counts: map[string]int{}},
		Run: diag.Run{ID: "run-1", CorrelationID: j.env.CorrelationID, StartedAt: diag.At(j.began), EndedAt: diag.At(now),
			DurationMS: diag.Measured(now.Sub(j.began)), EndedBy: ended, ToolVersion: sshtest.Version},
	}
	verdict.Judge(hops.BuiltIn(), r)
	return r
}

// closeVantage closes a vantage, which gives up on operations that do not end in time.
func closeVantage(t testing.TB, v hop.Vantage) {
	t.Helper()
	switch err := v.Close(); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		t.Logf("closing the %s vantage: %v; a busy machine ends its processes later", v.Name(), err)
	case err != nil:
		t.Errorf("closing the %s vantage: %v", v.Name(), err)
	}
}

// walk makes one whole walk.
func (w *world) walk(t testing.TB) *diag.Report {
	t.Helper()
	return w.prepare(t).walk(t)
}

// walk makes the whole walk.
func (j *job) walk(t testing.TB) *diag.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), walkLimit)
	defer cancel()
	r := j.run(ctx, t)
	if r.Run.EndedBy != diag.EndedCompleted {
		t.Errorf("the walk ended by %s", r.Run.EndedBy)
	}
	return r
}

// await returns when is reports true; false at the end of ctx, or after the limit.
func await(ctx context.Context, limit time.Duration, is func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// resultOf is one hop of a report.
func resultOf(t testing.TB, r *diag.Report, id diag.HopID) diag.HopResult {
	t.Helper()
	for _, h := range r.Hops {
		if h.ID == id {
			return h
		}
	}
	t.Fatalf("the report has no hop %s", id)
	return diag.HopResult{}
}

func describe(r *diag.Report) string {
	var b strings.Builder
	for _, h := range r.Hops {
		fmt.Fprintf(&b, "%-36s %-12s %5d ms %-32s %s%s\n", h.ID, h.Status, h.DurationMS, h.Signal, h.Text, h.Because)
	}
	v := r.Verdict
	fmt.Fprintf(&b, "%s, first %s", v.Outcome, v.FirstFailedHop)
	if v.Blame != nil {
		fmt.Fprintf(&b, ", blame %s %s %s (%s): %s; symptoms %v; reason %s, owner %s", v.Blame.Hop, v.Blame.Signal,
			v.Blame.Failure, v.Confidence, v.Blame.Text, v.Symptoms, v.Reason, v.Owner)
	}
	if v.Proof != nil {
		fmt.Fprintf(&b, "\nproof: %s", v.Proof.Text)
	}
	for _, o := range v.OtherFindings {
		fmt.Fprintf(&b, "\nalso %s %s %s: %s", o.Hop, o.Signal, o.Failure, o.Text)
	}
	return b.String()
}
