package preflight

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// The worlds of this file have a peer that is silent. They are walked in virtual time, so that their silence costs
// nothing; lab/e2e/inprocess has the rows of these tables where a server says something.

// hushed is a vantage that leaves some requests without an answer: each of them ends with its own time, or with its
// hop's.
type hushed struct {
	scripted
	silent func(diag.Request) func(*diag.Fact) // what is left of a request without an answer; nil for any other
	lasts  time.Duration                       // after it, silent requests are answered; 0: they never are
	start  time.Time                           // of the walk
}

func (h *hushed) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	return eachAtOnce(ctx, reqs, h.ask)
}

func (h *hushed) ask(ctx context.Context, req diag.Request) diag.Fact {
	f, began := h.scripted.Probe(ctx, []diag.Request{req})[0], time.Now()
	f.OffsetMS = began.Sub(h.start).Milliseconds()
	change := h.silent(req)
	if change == nil {
		return f
	}
	limit := 5 * time.Second
	if req.TimeoutMS > 0 {
		limit = time.Duration(req.TimeoutMS) * time.Millisecond
	}
	answered := h.lasts > 0 && h.lasts < limit
	if answered {
		limit = h.lasts
	}
	select {
	case <-time.After(limit):
	case <-ctx.Done():
		answered = false
	}
	if !answered {
		change(&f)
	}
	f.DurationMS = diag.Measured(time.Since(began))
	return f
}

// walkHushed walks a world in which both vantages may be silent for a while or for ever, and which is otherwise as in
// answered.
func walkHushed(t *testing.T, e *hop.Env, answered answers, lasts time.Duration,
	silent func(vantage string, req diag.Request) func(*diag.Fact)) (r *diag.Report, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began, v := time.Now(), map[string]hop.Vantage{hop.Platform: &scripted{name: hop.Platform}}
		for _, name := range []string{hop.Operator, hop.Node} {
			v[name] = &hushed{scripted: scripted{name: name, answers: answered}, lasts: lasts, start: began,
				silent: func(req diag.Request) func(*diag.Fact) { return silent(name, req) }}
		}
		r, took = walkFrom(t.Context(), e, v), time.Since(began)
	})
	if r.Run.EndedBy != diag.EndedCompleted {
		t.Errorf("the walk ended by %s", r.Run.EndedBy)
	}
	if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
		t.Errorf("replay: %v", err)
	}
	return r, took
}

// remoteHops need no login to the node.
var remoteHops = []diag.HopID{diag.HopControlPlaneAccess, diag.HopAllocationBinding, diag.HopNodeHeartbeat,
	diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS, diag.HopTerminalOpenTask, diag.HopGatewayNodeStream,
	diag.HopAppUserRoute}

func stayGreen(t *testing.T, r *diag.Report, hops []diag.HopID) {
	t.Helper()
	for _, id := range hops {
		if h := hopOf(r, id); h.Status != diag.StatusPass {
			t.Errorf("%s is %s, and must stay green: %s%s", id, h.Status, h.Text, h.Because)
		}
	}
}

// TestLoginFaults: a login without an answer is a fault of this hop only, within its budget, and hops that need no
// login are measured regardless. What a vantage reports of each silence is in preflight/vantage, TestFailureWords.
func TestLoginFaults(t *testing.T) {
	for name, phase := range map[string]string{"silent": "banner", "hangs in the key exchange": "host_key",
		"hangs on the key": "auth", "hangs at the channel": "exec", "says it runs the command": "exec"} {
		t.Run(name, func(t *testing.T) {
			r, took := walkHushed(t, testEnv(), nil, 0, func(vantage string, req diag.Request) func(*diag.Fact) {
				switch {
				case vantage != hop.Node:
					return nil
				case req.Op == diag.OpSSH:
					return func(f *diag.Fact) { failWith(diag.Timeout, phase)(f); f.SSH = &diag.SSHFacts{User: "ops"} }
				}
				return failWith(diag.Timeout, "ssh")
			})
			v := r.Verdict
			if v.Outcome != diag.OutcomeFail || v.Blame == nil {
				t.Fatalf("outcome %s, want fail\n%s", v.Outcome, describe(r))
			}
			if v.Blame.Hop != diag.HopNodeOpsAccess || v.Blame.Signal != diag.SigOpsSSHFailed ||
				v.Blame.Failure != diag.Timeout || v.Confidence != diag.Possible || v.Proof != nil {
				t.Errorf("blame %+v, %s with proof %v", v.Blame, v.Confidence, v.Proof)
			}
			if v.Owner == "" || len(v.Recovery) == 0 || v.Reason == "" || len(v.OtherFindings) > 0 {
				t.Errorf("owner %q, recovery %v, reason %q, others %+v", v.Owner, v.Recovery, v.Reason, v.OtherFindings)
			}
			stayGreen(t, r, remoteHops)
			if limit := hop.In(hops.BuiltIn().List(), diag.HopNodeOpsAccess).Budget + time.Second; took > limit {
				t.Errorf("the walk took %s, and its one silent hop has %s", took, limit)
			}
			if t.Failed() {
				t.Logf("\n%s", describe(r))
			}
		})
	}
}

// TestFrozenAfterLogin: a node that freezes in the middle of a walk costs its steps' time limits, and the only claim
// about it is that the connection to it broke.
func TestFrozenAfterLogin(t *testing.T) {
	for name, login := range map[string]func(*diag.Fact){
		"before its helper answers": failWith(diag.Timeout, "exec"), "later": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r, took := walkHushed(t, testEnv(), nil, 0, func(vantage string, req diag.Request) func(*diag.Fact) {
				switch {
				case vantage != hop.Node:
					return nil
				case req.Op == diag.OpSSH:
					return login
				}
				return failWith(diag.Timeout, "ssh")
			})
			if r.Verdict.Outcome == diag.OutcomePass || hopOf(r, diag.HopNodeReadiness).Status == diag.StatusPass {
				t.Errorf("a frozen node passes\n%s", describe(r))
			}
			if b := r.Verdict.Blame; b == nil || b.Hop != diag.HopNodeOpsAccess {
				t.Errorf("blame %+v\n%s", b, describe(r))
			}
			stayGreen(t, r, remoteHops)
			t.Logf("the walk took %s", took)
		})
	}
}

// TestStalledAPIIsNoFaultOfTheTerminal: single requests to the API hang for ten seconds, and so does the terminal
// listener's work. Hops that wait longer get their answer.
func TestStalledAPIIsNoFaultOfTheTerminal(t *testing.T) {
	asksTheAPI := []diag.HopID{diag.HopAllocationBinding, diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip,
		diag.HopTerminalOpenTask}
	stalls := map[string][]string{hop.Operator: {"/nodes/", "/tasks", "/allocations/alloc-1"}, hop.Node: {"/tasks/"}}
	e := testEnv()
	e.Profile.Budgets = map[diag.HopID]time.Duration{}
	for _, h := range hops.BuiltIn().List() {
		e.Profile.Budgets[h.ID] = 5 * h.Budget
	}
	for _, id := range asksTheAPI {
		e.Profile.Budgets[id] = 2500 * time.Millisecond
	}
	r, _ := walkHushed(t, e, nil, 10*time.Second, func(vantage string, req diag.Request) func(*diag.Fact) {
		if req.Op == diag.OpHTTP && !strings.Contains(req.Target, "term.test") &&
			slices.ContainsFunc(stalls[vantage], func(p string) bool { return strings.Contains(req.Target, p) }) {
			return failWith(diag.HTTPTimeout, "http")
		}
		return nil
	})
	v, failed := r.Verdict, 0
	for _, h := range r.Hops {
		if h.Status == diag.StatusFail {
			failed++
		}
	}
	if v.Outcome != diag.OutcomeInconclusive || v.Blame == nil || v.Blame.Status != diag.StatusInconclusive ||
		!slices.Contains(asksTheAPI, v.Blame.Hop) {
		t.Errorf("outcome %s, blame %+v\n%s", v.Outcome, v.Blame, describe(r))
	}
	if failed > 0 && len(v.Symptoms) == 0 {
		t.Errorf("%d hops failed, and none is a symptom\n%s", failed, describe(r))
	}
	if !strings.HasPrefix(v.Owner, "control plane API") || len(v.Recovery) == 0 {
		t.Errorf("owner %q, steps %q", v.Owner, v.Recovery)
	}
}

// silentSession is a session whose stream is cut without an end: after its first frames nothing arrives any more.
type silentSession struct {
	name   string
	first  string            // the first frame; "": the cut comes before it
	pinged bool              // the session's ping is answered
	row    map[string]string // of the gateway
	frozen bool              // nor does the gateway answer the node

	hop    diag.HopID
	signal diag.Signal
	owner  string
	says   []string
	step   string
}

func (s silentSession) walk(t *testing.T) *diag.Report {
	t.Helper()
	world := cutWorld(diag.WSFacts{FirstFrame: s.first}, s.row)
	r, _ := walkHushed(t, testEnv(), world, 0, func(vantage string, req diag.Request) func(*diag.Fact) {
		switch {
		case vantage == hop.Operator && req.ID == "browser_terminal_ws/session":
			return func(f *diag.Fact) {
				f.WS.QuietMS = diag.Millis(req.TimeoutMS)
				if f.WS.PingLost = !s.pinged; s.pinged {
					f.WS.PingMS = 3
				}
			}
		case vantage == hop.Node && s.frozen && strings.HasPrefix(req.ID, "gateway_node_stream/gateway"):
			return failWith(diag.HTTPTimeout, "ws")
		}
		return nil
	})
	return r
}

func (s silentSession) check(t *testing.T) {
	t.Helper()
	r := s.walk(t)
	v := r.Verdict
	if v.Blame == nil {
		t.Fatalf("nobody is blamed\n%s", describe(r))
	}
	if v.Blame.Hop != s.hop || v.Blame.Signal != s.signal || v.Owner != s.owner || len(v.OtherFindings) > 0 {
		t.Errorf("%s %s, owner %s, others %+v; want %s %s, owner %s", v.Blame.Hop, v.Blame.Signal, v.Owner,
			v.OtherFindings, s.hop, s.signal, s.owner)
	}
	for _, words := range s.says {
		if !strings.Contains(v.Blame.Text, words) {
			t.Errorf("no %q in %q", words, v.Blame.Text)
		}
	}
	if !slices.ContainsFunc(v.Recovery, func(step string) bool { return strings.Contains(step, s.step) }) {
		t.Errorf("no %q in the steps %q", s.step, v.Recovery)
	}
	if h := hopOf(r, diag.HopTerminalStartup); s.hop != diag.HopTerminalStartup && h.Status != diag.StatusInconclusive {
		t.Errorf("the shell, which nobody could judge, is %s: %s", h.Status, h.Text)
	}
	if t.Failed() {
		t.Logf("\n%s", describe(r))
	}
}

// TestCutInFront: a connection between browser and gateway that goes silent is blamed on its cause, whatever the shell
// was doing.
func TestCutInFront(t *testing.T) {
	open := map[string]string{"session.closed_at": "", "session.node_answers": "yes"}
	front := func(name, first string) silentSession {
		return silentSession{name: name, first: first, row: open, hop: diag.HopBrowserTerminalWS, signal: diag.SigStreamCut,
			owner: "edge and route profile", says: []string{"no ping over it is answered"}, step: "idle time-outs"}
	}
	gateway := front("gateway frozen", "ready")
	gateway.frozen, gateway.owner, gateway.step = true, "terminal gateway, edge", "which of them ended it"
	gateway.says = append(gateway.says, "does not answer the node either")
	gateway.row = map[string]string{"session.closed_at": "", "session.node_answers": ""}
	for _, s := range []silentSession{
		front("hole after 300 bytes", ""), front("hole after 400 bytes", "ready"),
		front("deaf after 300 bytes", ""), front("deaf after 400 bytes", "ready"), gateway,
	} {
		t.Run(s.name, s.check)
	}
}

// TestShellFails: if nothing was cut, the shell is blamed.
func TestShellFails(t *testing.T) {
	silentSession{name: "swallows its input, far away", first: "ready", pinged: true,
		row: map[string]string{"session.close_reason": "browser_closed", "session.node_answers": "yes"},
		hop: diag.HopTerminalStartup, signal: diag.SigPTYFailed, owner: "node runtime, allocation user setup",
		says: []string{"computes nothing"}, step: "the agent's terminal log"}.check(t)
}
