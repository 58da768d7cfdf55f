package preflight

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// described is a scripted vantage that describes its place.
type described struct {
	scripted
	info diag.VantageInfo
}

func (d *described) Info() diag.VantageInfo { return d.info }

func testJob(v map[string]hop.Vantage) *walk.Job {
	e := testEnv()
	return &walk.Job{Env: *e, Plan: testPlan(e), Vantages: v, RunID: "run-1", Began: time.Now(), Tool: "v1"}
}

func TestRunIsAWholeReport(t *testing.T) {
	node := diag.VantageInfo{ID: hop.Node, How: "ssh ops@192.0.2.101:22", Host: "192.0.2.101"}
	resolver := func(f *diag.Fact) { f.DNS = &diag.DNSFacts{Name: "api.test", Server: "192.0.2.53:53"} }
	r := inMadeUpTime(t, func(t *testing.T) *diag.Report {
		return walk.Run(t.Context(), testJob(map[string]hop.Vantage{
			hop.Operator: &scripted{name: hop.Operator, answers: answers{"control_plane_access/healthz": resolver}},
			hop.Node:     &described{scripted{name: hop.Node}, node},
		}))
	})
	if r.APIVersion != diag.APIVersion || r.Kind != diag.KindPreflight || r.Verdict.Outcome != diag.OutcomePass {
		t.Errorf("%s %s, %s\n%s", r.APIVersion, r.Kind, r.Verdict.Outcome, describe(r))
	}
	if r.Run.ID != "run-1" || r.Run.ToolVersion != "v1" || r.Run.CorrelationID != "corr-1" || r.Run.DurationMS < 1 ||
		r.Run.EndedBy != diag.EndedCompleted {
		t.Errorf("run %+v", r.Run)
	}
	want := []diag.VantageInfo{{ID: hop.Operator, Resolver: "192.0.2.53:53"}, node}
	if !slices.Equal(r.Vantages, want) {
		t.Errorf("vantages %+v, want %+v", r.Vantages, want)
	}
	if r.Redaction.Counts["token"] == 0 || r.Redaction.Counts["kept"] != 1 || len(r.Redaction.Rules) == 0 {
		t.Errorf("redaction %+v", r.Redaction)
	}
	if len(r.Evidence) != 1 || r.Evidence[0].Kind != "task_claimed" {
		t.Errorf("evidence %+v", r.Evidence)
	}
	if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
		t.Errorf("its own report is refused: %v", err)
	}
}

// stuck is a vantage that breaks its contract: one request blocks and ignores ctx.
type stuck struct {
	scripted
	question string
	release  chan struct{}
}

func (d *stuck) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	if slices.ContainsFunc(reqs, func(r diag.Request) bool { return r.ID == d.question }) {
		<-d.release
	}
	return d.scripted.Probe(ctx, reqs)
}

// An operator who presses Ctrl-C does not wait for a vantage that ignores ctx, and keeps what was measured.
func TestRunDoesNotWaitForADeafVantage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		node := &stuck{scripted: scripted{name: hop.Node}, question: "node_ops_access/ssh", release: make(chan struct{})}
		j := testJob(map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator}, hop.Node: node})
		defer close(node.release)
		var mu sync.Mutex // guards ended
		ended := false
		j.Observe = func(walk.Event) {
			mu.Lock()
			defer mu.Unlock()
			if ended {
				t.Error("an event after the end")
			}
		}
		time.AfterFunc(time.Second, cancel)
		r := walk.Run(ctx, j)
		if d := time.Since(j.Began); d > 2*time.Second {
			t.Errorf("it took %s", d)
		}
		mu.Lock()
		ended = true
		mu.Unlock()
		if r.Run.EndedBy != diag.EndedInterrupted || r.Verdict.Outcome != diag.OutcomeInconclusive ||
			len(r.Hops) != len(usualHops()) {
			t.Errorf("ended by %s, %s", r.Run.EndedBy, r.Verdict.Outcome)
		}
		if h := hopOf(r, diag.HopControlPlaneAccess); h.Status != diag.StatusPass {
			t.Errorf("what had been measured is %s", h.Status)
		}
	})
}

// slow takes a given time for one request, and fails it.
type slow struct {
	scripted
	question string
	takes    time.Duration
}

func (s *slow) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	facts := s.scripted.Probe(ctx, reqs)
	if reqs[0].ID == s.question {
		time.Sleep(s.takes)
		facts[0].Failure, facts[0].Phase, facts[0].HTTP = diag.TCPTimeout, "tcp", nil
		facts[0].TCP = &diag.TCPFacts{Remote: "192.0.2.11:443"}
	}
	return facts
}

// A counter-probe without enough time would fail, and that failure would count as the operator's.
func TestNoTimeNoCounterProbe(t *testing.T) {
	const question = "node_runtime_api_reachability/reach"
	for budget, want := range map[time.Duration]bool{900 * time.Millisecond: false, 9 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			j := testJob(map[string]hop.Vantage{
				hop.Operator: &scripted{name: hop.Operator},
				hop.Node:     &slow{scripted{name: hop.Node}, question, 4 * time.Second},
			})
			for i := range j.Plan.Hops {
				if j.Plan.Hops[i].ID == diag.HopNodeRuntimeAPI {
					j.Plan.Hops[i].BudgetMS = budget.Milliseconds()
				}
			}
			r := walk.Run(t.Context(), j)
			asked := slices.ContainsFunc(r.Facts, func(f diag.Fact) bool { return strings.HasPrefix(f.ID, question+"~") })
			if asked != want {
				t.Errorf("budget %s: counter-probes asked: %t", budget, asked)
			}
			if text := hopOf(r, diag.HopNodeRuntimeAPI).Text; !want && strings.Contains(text, "operator") {
				t.Errorf("the operator was not asked: %s", text)
			}
		})
	}
}

// mute is a node that leaves one request without an answer until the request's own time-out, or forever.
type mute struct {
	scripted
	question string
	never    bool
}

func (m *mute) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	facts := m.scripted.Probe(ctx, reqs)
	if reqs[0].ID != m.question {
		return facts
	}
	own := time.Duration(reqs[0].TimeoutMS) * time.Millisecond
	if m.never {
		own = time.Hour
	}
	select {
	case <-time.After(own):
		failWith(diag.TCPTimeout, "tcp")(&facts[0])
	case <-ctx.Done(): // as the vantage reports it
		failWith(diag.Cancelled, "ssh")(&facts[0])
		facts[0].TCP, facts[0].Target = nil, ""
	}
	return facts
}

// A small budget does not mean a broken login: the request's own fact shows how far it came, and a node that does not
// answer within the budget is not a fault of SSH.
func TestASmallBudgetBlamesNoLogin(t *testing.T) {
	const question = "node_runtime_api_reachability/reach"
	for _, never := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			j := testJob(map[string]hop.Vantage{
				hop.Operator: &scripted{name: hop.Operator},
				hop.Node:     &mute{scripted{name: hop.Node}, question, never},
			})
			j.Env.Profile.Budgets = map[diag.HopID]time.Duration{diag.HopNodeRuntimeAPI: 3 * time.Second}
			j.Plan = testPlan(&j.Env)
			r := walk.Run(t.Context(), j)
			if h := hopOf(r, diag.HopNodeOpsAccess); h.Status != diag.StatusPass {
				t.Errorf("the login is %s: %s", h.Status, h.Text)
			}
			h := hopOf(r, diag.HopNodeRuntimeAPI)
			switch {
			case never && (r.Verdict.Blame != nil || h.Status != diag.StatusInconclusive ||
				!strings.Contains(h.Because, "within the hop's budget")):
				t.Errorf("no answer: blame %+v\n%s", r.Verdict.Blame, describe(r))
			case !never && (r.Verdict.Blame == nil || r.Verdict.Blame.Hop != diag.HopNodeRuntimeAPI):
				t.Errorf("blame %+v\n%s", r.Verdict.Blame, describe(r))
			}
		})
	}
}
