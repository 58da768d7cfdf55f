package preflight

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// habit is how one request is answered, every time that it is sent.
type habit struct {
	fail  func(*diag.Fact) // nil: it passes
	other func(*diag.Fact) // another failure that it has in some runs, if any
	share float64          // of the answers that fail
	after time.Duration    // until an answer comes
}

// imagined decides which requests of one walk pass and which fail.
type imagined struct {
	mu     sync.Mutex // guards all
	rng    *rand.Rand
	habits map[string]habit // by request
	flaky  float64          // share of the requests with different results in different runs
	broken float64          // share of the steps that fail
	shared bool             // a step's counter-probes are as unstable as the step, so what they change is not at fault
	older  bool             // the node's helper does not support repeats
	asked  map[string][]diag.Request
	spans  map[string][2]time.Time // of a hop's requests
	chance int                     // proofs from unstable requests, with and without what the pair changes
}

// waysToFail are ways in which a network request may fail, each with the least that its probe leaves in the fact.
var waysToFail = []func(*diag.Fact){
	failWith(diag.DNSTimeout, "dns"), failWith(diag.DNSNXDomain, "dns"), failWith(diag.DNSServFail, "dns"),
	failWith(diag.TCPTimeout, "tcp"), failWith(diag.TCPRefused, "tcp"), failWith(diag.TCPReset, "tcp"),
	failWith(diag.TCPNoRoute, "tcp"),
	failWith(diag.TLSUnknownCA, "tls"), failWith(diag.TLSClosed, "tls"), failWith(diag.TLSALPN, "tls"),
	failWith(diag.Timeout, "tls"),
	refuses(diag.MTLSUnknownCA), refuses(diag.MTLSCertRejected), refuses(diag.HTTPClosed),
	failWith(diag.HTTPTimeout, "http"), failWith(diag.HostExhausted, ""), denies,
	httpFails(diag.HTTPEdgePage, 502, "edge_error"), httpFails(diag.HTTPEdgePage, 503, "edge_error"),
	httpFails(diag.HTTPStatus, 404, ""), httpFails(diag.HTTPRateLimited, 429, ""), httpFails(diag.HTTPStatus, 403, ""),
	httpFails(diag.HTTPEdgeAuth, 302, ""),
}

func refuses(word diag.Failure) func(*diag.Fact) {
	yes := true
	return func(f *diag.Fact) {
		failWith(word, "mtls")(f)
		if word == diag.HTTPClosed {
			f.Phase = "http"
		}
		f.TLS = &diag.TLSFacts{CertRequested: &yes, CertSent: "01", AcceptableCAs: []string{"CN=signing"}}
	}
}

func denies(f *diag.Fact) {
	failWith(diag.TCPDenied, "tcp")(f)
	f.Errno, f.Denial = "EPERM", &diag.DenialFacts{Seccomp: "none"}
}

func httpFails(word diag.Failure, status int, page string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		failWith(word, "http")(f)
		f.HTTP = &diag.HTTPFacts{Status: status, Page: page}
	}
}

// habitOf returns how a request and all of its repeats are answered; the world decides it at the first one.
func (w *imagined) habitOf(req diag.Request) habit {
	step, name, _ := hop.SplitID(req.ID)
	id := step + "~" + name
	if h, known := w.habits[id]; known {
		return h
	}
	share := w.broken
	if name != "" {
		share = 0.5 // a counter-probe of a failed request
	}
	var h habit
	if w.rng.Float64() < share && req.Op.Row().Ladder {
		h = habit{fail: waysToFail[w.rng.IntN(len(waysToFail))], share: 1}
		if base := w.habits[step+"~"]; name != "" && base.fail != nil && w.rng.Float64() < 0.8 {
			h.fail = base.fail
		}
	}
	if base := w.habits[step+"~"]; name != "" && w.shared && base.share > 0 && base.share < 1 {
		w.habits[id] = base
		return base
	}
	if w.rng.Float64() < w.flaky && req.Op.Row().Ladder {
		h.share = 0.2 + 0.6*w.rng.Float64()
		if h.fail == nil {
			h.fail = waysToFail[w.rng.IntN(len(waysToFail))]
		}
	}
	if w.rng.Float64() < w.flaky {
		h.other = waysToFail[w.rng.IntN(len(waysToFail))]
	}
	if w.rng.Float64() < 0.1 && req.Op.Row().Ladder {
		h.after = time.Duration(w.rng.IntN(3000)) * time.Millisecond
	}
	w.habits[id] = h
	return h
}

// place is a vantage of a world.
type place struct {
	scripted
	world *imagined
}

func (p *place) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	return eachAtOnce(ctx, reqs, p.ask)
}

func (p *place) ask(ctx context.Context, req diag.Request) diag.Fact {
	f := p.scripted.Probe(ctx, []diag.Request{req})[0]
	began := time.Now()
	defer p.world.span(req.ID, began)
	p.world.mu.Lock()
	h, fails, otherwise := p.world.habitOf(req), p.world.rng.Float64(), p.world.rng.Float64() < 0.5
	p.world.asked[req.ID] = append(p.world.asked[req.ID], req)
	p.world.mu.Unlock()
	if f.TCP == nil && req.Op.Row().Ladder {
		none := int64(0)
		f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443", Resent: &none}
	}
	if req.Fresh && p.world.older && p.name == hop.Node {
		return diag.Fact{ID: req.ID, Vantage: p.name, Request: req, DurationMS: 1, Failure: diag.Unsupported,
			Detail: "unknown field fresh"}
	}
	limit := time.Duration(req.TimeoutMS) * time.Millisecond
	if limit <= 0 {
		limit = 5 * time.Second
	}
	took := max(h.after, 2*time.Millisecond)
	if h.fail != nil && fails < h.share {
		if h.other != nil && otherwise {
			h.other(&f)
		} else {
			h.fail(&f)
		}
		if reading.GotNoAnswer(&f) {
			took = limit
		}
	}
	late := took > limit
	select {
	case <-time.After(min(took, limit)):
	case <-ctx.Done():
		f.Failure, f.Phase, f.HTTP, f.WS, f.PTY = diag.Cancelled, "", nil, nil, nil
		return f
	}
	if late && req.Op.Row().Ladder {
		failWith(diag.HTTPTimeout, "http")(&f)
	}
	f.DurationMS = diag.Measured(min(took, limit))
	return f
}

func (w *imagined) span(id string, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, known := w.spans[budgetOf(id)]
	if !known || began.Before(at[0]) {
		at[0] = began
	}
	if now := time.Now(); now.After(at[1]) {
		at[1] = now
	}
	w.spans[budgetOf(id)] = at
}

// budgetOf returns what a request's time counts against: its hop or, for a step behind a login with its own budget, the
// step.
func budgetOf(id string) string {
	if step, _, _ := hop.SplitID(id); secondLooks[step] != "" {
		return step
	}
	of, step, _ := strings.Cut(id, "/")
	h := hop.In(hops.BuiltIn().List(), diag.HopID(of))
	asks := func(s hop.Step) bool { return s.From == hop.Operator && s.Uses == "" && !s.Pure() }
	alone := func(s hop.Step) bool {
		return s.Name == step && s.From == hop.Node && len(s.Needs.Facts) == 0
	}
	if slices.ContainsFunc(h.Steps, asks) && slices.ContainsFunc(h.Steps, alone) {
		return of + "/" + step
	}
	return of
}

func (w *imagined) walk(t *testing.T) (*diag.Report, time.Duration) {
	t.Helper()
	e := testEnv()
	vantages := map[string]hop.Vantage{}
	for _, v := range []string{hop.Operator, hop.Node, hop.Platform} {
		vantages[v] = &place{scripted{name: v}, w}
	}
	began := time.Now()
	r := walkFrom(context.Background(), e, vantages)
	return r, time.Since(began)
}

// TestReportsSayWhatTheirFactsShow walks through worlds in which any request may fail, be unstable, or be slow.
func TestReportsSayWhatTheirFactsShow(t *testing.T) {
	walks := 300
	if n, err := strconv.Atoi(os.Getenv("GPUAASCTL_WORLDS")); err == nil {
		walks = n
	}
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("GPUAASCTL_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seed %d", seed)
	words := map[diag.Confidence]int{}
	var longest time.Duration
	chance := 0
	for i := range walks {
		var lines []string
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			w := &imagined{rng: rng, habits: map[string]habit{}, asked: map[string][]diag.Request{},
				spans: map[string][2]time.Time{}, older: i%4 == 3, shared: i%2 == 0,
				broken: []float64{0.05, 0.15, 0.3}[i%3], flaky: []float64{0, 0, 0.2}[i/3%3]}
			r, took := w.walk(t)
			longest = max(longest, took)
			for _, b := range append(r.Verdict.OtherFindings, blameOf(r)) {
				words[b.Confidence]++
			}
			lines = wrong(w, r)
			chance += w.chance
		})
		for _, line := range lines {
			t.Errorf("seed %d, walk %d: %s", seed, i, line)
		}
	}
	t.Log(words, longest, chance)
	if chance > 2+walks/500 {
		t.Errorf("%d of %d walks prove by chance that what they changed is at fault", chance, walks)
	}
	if longest > 40*time.Second {
		t.Errorf("a walk took %s", longest)
	}
}
