package preflight

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/profile"
)

// opening is a vantage that opens connections ahead. before is called for each request, and may wait.
type opening struct {
	scripted
	before func(req diag.Request)

	mu     sync.Mutex        // guards the fields below
	opened map[string]string // endpoint by id of the request
	open   map[string]bool   // those that are open
	asked  []string          // ids of the requests
}

func newOpening(a answers) *opening {
	return &opening{scripted: scripted{name: hop.Operator, answers: a}, opened: map[string]string{},
		open: map[string]bool{}}
}

func (o *opening) Ahead(ctx context.Context, req diag.Request) {
	set := func(open bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.opened[req.ID], o.open[req.ID] = hop.EndpointOf(req.Target), open
	}
	set(true)
	<-ctx.Done()
	set(false)
}

func (o *opening) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	o.mu.Lock()
	o.asked = append(o.asked, reqs[0].ID)
	o.mu.Unlock()
	if o.before != nil {
		o.before(reqs[0])
	}
	return o.scripted.Probe(ctx, reqs)
}

func (o *opening) walk(t *testing.T, e *hop.Env) *diag.Report {
	return walkFrom(t.Context(), e, map[string]hop.Vantage{hop.Operator: o, hop.Node: &scripted{name: hop.Node}})
}

const (
	idEnqueue, idMint, idSession = "node_task_roundtrip/enqueue", "terminal_token_mint/mint", "browser_terminal_ws/session"
	idAuth, idAllocation         = "control_plane_access/auth", "allocation_binding/allocation"
)

// TestConnectionsAheadOfEffects: a connection is opened for each request with an effect that the walk may send, and
// none for one whose path the platform lacks. None remains.
func TestConnectionsAheadOfEffects(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*hop.Env)
		want   []string
	}{
		"a whole walk": {func(*hop.Env) {}, []string{idSession, idEnqueue, idMint}},
		"no token's path": {func(e *hop.Env) {
			e.Profile.Mapping.Paths = map[string]string{profile.PathTerminalToken: "-"}
		}, []string{idEnqueue}},
		"no health page of the terminal": {func(e *hop.Env) {
			e.Profile.Mapping.Paths = map[string]string{profile.PathTerminalHealthz: "-"}
		}, []string{idEnqueue, idMint}},
	} {
		o, e := newOpening(nil), testEnv()
		c.change(e)
		inMadeUpTime(t, func(t *testing.T) *diag.Report { return o.walk(t, e) })
		if got := slices.Sorted(maps.Keys(o.opened)); !slices.Equal(got, c.want) {
			t.Errorf("%s: opened for %q, want %q", name, got, c.want)
		}
		for id, endpoint := range o.opened {
			if o.open[id] {
				t.Errorf("%s: the connection for %s is still open", name, id)
			}
			want := hop.EndpointOf(e.Profile.APIBase)
			if id == idSession {
				want = hop.EndpointOf(e.Profile.TerminalBase)
			}
			if endpoint != want {
				t.Errorf("%s: the connection for %s goes to %s, not to %s", name, id, endpoint, want)
			}
		}
	}
}

// TestALimitedServerKeepsNoConnectionAhead: what a limit on connections refuses is sent again when this walk's unused
// connections to that server are closed.
func TestALimitedServerKeepsNoConnectionAhead(t *testing.T) {
	const read = "node_heartbeat/read_model"
	refused := false
	o := newOpening(answers{read: func(f *diag.Fact) {
		if !refused {
			refused = true
			f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http", &diag.HTTPFacts{Status: 503, ContentType: "text/html"}
		}
	}})
	tries := 0
	o.before = func(req diag.Request) {
		if req.ID != read {
			return
		}
		if tries++; tries == 2 {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.open[idMint] || o.open[idEnqueue] || !refused {
				t.Errorf("sent again beside %v", o.open)
			}
		}
	}
	r := inMadeUpTime(t, func(t *testing.T) *diag.Report { return o.walk(t, testEnv()) })
	if tries != 2 || r.Verdict.Outcome != diag.OutcomeWarn {
		t.Errorf("%d tries\n%s", tries, describe(r))
	}
}

// TestReadsDoNotWaitForTheirNeeds: a later walk over the same vantages sends its reads at once, and drops their answers
// if a need does not pass. A first walk waits, and an effect always does.
func TestReadsDoNotWaitForTheirNeeds(t *testing.T) {
	for _, reuses := range []bool{false, true} {
		for _, refuse := range []bool{false, true} {
			o, e := newOpening(nil), testEnv()
			e.ReusesVantage = reuses
			read := make(chan struct{})
			if refuse {
				o.answers = answers{idAuth: func(f *diag.Fact) { f.Failure, f.Phase, f.HTTP.Status = diag.HTTPStatus, "http", 401 }}
			}
			o.before = func(req diag.Request) {
				switch {
				case req.ID == idAllocation:
					close(read)
				case req.ID == idAuth && reuses:
					<-read // a walk that waited would hang here
				}
			}
			r := inMadeUpTime(t, func(t *testing.T) *diag.Report { return o.walk(t, e) })
			recorded := slices.ContainsFunc(r.Facts, func(f diag.Fact) bool { return f.ID == idAllocation })
			effects := slices.ContainsFunc(o.asked, func(id string) bool { return id == idMint || id == idEnqueue })
			if recorded == refuse || effects == refuse || slices.Contains(o.asked, idAllocation) != (reuses || !refuse) {
				t.Errorf("reuses %v, refused %v: recorded %v, asked %s", reuses, refuse, recorded, strings.Join(o.asked, " "))
			}
		}
	}
}
