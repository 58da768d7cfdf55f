package preflight

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// TestRefusedBesideOthers: what a server refuses once, while it serves others of the walk, is a limit's and no fault of
// the platform. A request with an effect is sent again only if it was refused before it was sent; else its text names a
// limit as a cause.
func TestRefusedBesideOthers(t *testing.T) {
	unavailable := func(kind, page string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http", &diag.HTTPFacts{Status: 503, ContentType: kind, Page: page}
		}
	}
	const read, mint, enqueue = "node_heartbeat/read_model", "terminal_token_mint/mint", "node_task_roundtrip/enqueue"
	for name, tc := range map[string]struct {
		id     string
		refuse func(*diag.Fact)
		again  bool
	}{
		"reset at connect":        {mint, failWith(diag.TCPReset, "tcp"), true},
		"a port that refuses":     {mint, failWith(diag.TCPRefused, "tcp"), true},
		"closed in the handshake": {mint, failWith(diag.TLSClosed, "tls"), true},
		"a proxy's page":          {read, unavailable("text/html", "edge_error"), true},
		"a plain text":            {read, unavailable("text/plain", ""), true},
		"JSON without a code":     {read, unavailable("application/json", ""), true},
		"hung up on a read":       {read, failWith(diag.HTTPClosed, "http"), true},
		"a page to an effect":     {mint, unavailable("text/html", "edge_error"), false},
		"a text to an effect":     {mint, unavailable("text/plain", ""), false},
		"hung up on an effect":    {mint, failWith(diag.HTTPClosed, "http"), false},
		"hung up on a task":       {enqueue, failWith(diag.HTTPClosed, "http"), false},
	} {
		asked := 0
		r := walkWith(t, answers{tc.id: func(f *diag.Fact) {
			if f.Request.ID != tc.id {
				return
			}
			if asked++; asked == 1 {
				tc.refuse(f)
			}
		}})
		v := r.Verdict
		if tc.again {
			if v.Outcome != diag.OutcomeWarn || asked != 2 {
				t.Errorf("%s: asked %d times\n%s", name, asked, describe(r))
			}
		} else if v.Blame == nil || asked != 1 || !strings.Contains(v.Owner, "edge") ||
			!strings.Contains(v.Blame.Text, "a limit on connections refuses so, too") {
			t.Errorf("%s: asked %d times, %s, %+v\n%s", name, asked, v.Owner, v.Blame, describe(r))
		}
	}
}

// limitedTo2 is a healthy vantage whose API serves two requests at a time and refuses other reads.
type limitedTo2 struct {
	scripted
	takes time.Duration // each request
	mu    sync.Mutex
	open  int // guarded by mu
}

func (l *limitedTo2) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	count := func(n int) int {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open += n
		return l.open
	}
	facts := l.scripted.Probe(ctx, reqs)
	if !strings.HasPrefix(reqs[0].Target, "https://api.test/") {
		return facts
	}
	defer count(-1)
	if count(1) > 2 && !reading.HasEffect(&reqs[0]) {
		facts[0] = diag.Fact{ID: reqs[0].ID, Request: reqs[0], Vantage: l.name, DurationMS: 1, Failure: diag.HTTPStatus,
			Phase: "http", HTTP: &diag.HTTPFacts{Status: 503, ContentType: "text/html"}}
		return facts
	}
	time.Sleep(l.takes)
	return facts
}

// TestLimitOfASlowPlatform: a request that is refused beside others is sent again when these have ended, however long
// they take, so a limit on connections makes no walk inconclusive.
func TestLimitOfASlowPlatform(t *testing.T) {
	for _, takes := range []time.Duration{walk.SilentFor / 2, walk.SilentFor * 9 / 10, walk.SilentFor} {
		r := inMadeUpTime(t, func(t *testing.T) *diag.Report {
			return walkFrom(t.Context(), testEnv(), map[string]hop.Vantage{
				hop.Operator: &limitedTo2{scripted: scripted{name: hop.Operator}, takes: takes},
				hop.Node:     &scripted{name: hop.Node},
			})
		})
		if r.Verdict.Outcome != diag.OutcomeWarn {
			t.Errorf("%s: %s\n%s", takes, r.Verdict.Outcome, describe(r))
		}
	}
}

// TestRefusedFirst: a refusal is reported of any request, also of one whose answer was an error or that says that there
// is nothing to judge.
func TestRefusedFirst(t *testing.T) {
	const read = "gpu_health/admission"
	asked := 0
	r := walkWith(t, answers{read: func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http", &diag.HTTPFacts{Status: 503, ContentType: "text/html"}
		if asked++; asked > 1 {
			f.HTTP = &diag.HTTPFacts{Status: 404, ContentType: "application/json", ErrorCode: hops.GPUNotJudged}
		}
	}})
	h := reading.HopNamed(r.Hops, diag.HopGPUHealth)
	if h.Status != diag.StatusSkipped || len(h.Also) != 1 ||
		!strings.Contains(h.Also[0].Text, "refused this request once") {
		t.Errorf("%s\n%+v", describe(r), h.Also)
	}
}
