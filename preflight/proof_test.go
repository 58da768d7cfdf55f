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
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

const (
	reach  = "node_runtime_api_reachability/reach"
	stream = "node_terminal_reachability/stream"
)

func answerWith(word diag.Failure, phase string, status int, fields map[string]string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP = word, phase, &diag.HTTPFacts{Status: status, Fields: fields}
	}
}

// The passing probe of a pair must pass by the judgement of its hop; one that only got further does not count.
func TestAPassOfAPairIsTheHops(t *testing.T) {
	for name, tc := range map[string]struct {
		step   string
		pinned func(*diag.Fact)
		proven bool
	}{
		"the listener wants a certificate":    {reach, func(*diag.Fact) {}, true},
		"it answers a login page":             {reach, answerWith(diag.HTTPEdgeAuth, "http", 302, nil), true},
		"every packet is dropped":             {reach, failWith(diag.TCPTimeout, "tcp"), false},
		"it refuses the connection":           {reach, failWith(diag.TCPRefused, "tcp"), false},
		"it is broken":                        {reach, answerWith(diag.HTTPStatus, "http", 502, nil), false},
		"its certificate is another's":        {reach, failWith(diag.TLSUnknownCA, "tls"), false},
		"a limiter answers":                   {reach, answerWith(diag.HTTPRateLimited, "http", 429, nil), false},
		"the session is unknown":              {stream, func(*diag.Fact) {}, true},
		"the gateway is broken":               {stream, answerWith(diag.WSUpgradeRejected, "ws", 503, nil), false},
		"the gateway refuses the certificate": {stream, failWith(diag.MTLSUnknownCA, "mtls"), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, answers{
				tc.step: failWith(diag.DNSTimeout, "dns"), tc.step + "~pinned": tc.pinned,
				tc.step + "~host-view":     failWith(diag.DNSTimeout, "dns"),
				tc.step + "~from-operator": failWith(diag.TCPTimeout, "tcp"),
			})
			v := r.Verdict
			if v.Blame == nil || (v.Proof != nil) != tc.proven || (v.Confidence == diag.Proven) != tc.proven {
				t.Fatalf("%s, proof %+v\n%s", v.Confidence, v.Proof, describe(r))
			}
			if claimed := strings.Contains(v.Blame.Text, "it answers"); claimed != tc.proven {
				t.Errorf("the text says so: %t: %s", claimed, v.Blame.Text)
			}
			if strings.Contains(v.Blame.Text, "the operator") {
				t.Errorf("a pinned address is not looked up, so the operator's question says nothing of it: %s", v.Blame.Text)
			}
			if tc.proven && (v.Proof.Failed < reading.Repeats || v.Proof.Passed < reading.Repeats) {
				t.Errorf("%+v", v.Proof)
			}
			for _, e := range v.RuledOut {
				if !tc.proven && strings.Contains(e, "it answers") {
					t.Errorf("ruled out: %s", e)
				}
			}
		})
	}
}

// "The operator's request fails as well" is claimed only of the same phase, with the same credentials.
func TestTheOperatorIsComparedInOnePhase(t *testing.T) {
	for name, tc := range map[string]struct {
		step           string
		node, operator func(*diag.Fact)
		text           string
	}{
		"both are not connected": {reach, failWith(diag.TCPTimeout, "tcp"), failWith(diag.TCPTimeout, "tcp"),
			"the operator's request fails as well"},
		"the operator is connected": {reach, failWith(diag.TCPTimeout, "tcp"), func(*diag.Fact) {},
			"the operator gets an answer, so"},
		"the operator is refused":        {reach, failWith(diag.TCPTimeout, "tcp"), failWith(diag.TCPRefused, "tcp"), ""},
		"the operator has no such look":  {reach, failWith(diag.DNSTimeout, "dns"), failWith(diag.TCPTimeout, "tcp"), ""},
		"the operator has no name there": {reach, failWith(diag.TCPTimeout, "tcp"), failWith(diag.DNSTimeout, "dns"), ""},
		"the operator has no certificate": {
			stream, answerWith(diag.HTTPTimeout, "http", 0, nil), answerWith(diag.MTLSCertRequired, "mtls", 0, nil), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, answers{
				tc.step: tc.node, tc.step + "~pinned": tc.node, tc.step + "~host-view": tc.node,
				tc.step + "~from-operator": tc.operator,
			})
			text := hopOf(r, diag.HopID(strings.Split(tc.step, "/")[0])).Text
			if (tc.text == "" && strings.Contains(text, "the operator")) || !strings.Contains(text, tc.text) {
				t.Errorf("want %q: %s", tc.text, text)
			}
		})
	}
}

// A request that is answered only sometimes is unstable, and proves nothing else.
func TestWhatComesAndGoesIsUnstable(t *testing.T) {
	silent := failWith(diag.DNSTimeout, "dns")
	r := walkWith(t, answers{reach: silent, reach + "~2": func(*diag.Fact) {}})
	v := r.Verdict
	if v.Blame == nil || v.Blame.Signal != diag.SigNetworkUnstable || v.Blame.Failure != diag.Unstable ||
		v.Confidence != diag.Proven ||
		v.Proof.Changed != diag.ChangedNothing || v.Owner != "environment networking" {
		t.Fatalf("%+v %s %+v", v.Blame, v.Confidence, v.Proof)
	}
	if want := "sent the same request to https://node-api.test 13 times: 12 got no answer (dns_timeout 12), 1 passed; " +
		"the loss is at or between the node and its DNS server 192.0.2.53:53"; !strings.Contains(v.Blame.Text, want) {
		t.Errorf("%s", v.Blame.Text)
	}
	if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]answers{
		"another word once":      {reach + "~3": failWith(diag.TCPTimeout, "tcp")},
		"the pin fails once":     {reach + "~pinned~3": failWith(diag.TCPTimeout, "tcp")},
		"a segment was lost":     {reach + "~pinned~2": sentAgain},
		"lost at another's":      {stream: sentAgain},
		"another one is unheard": {stream: silent, stream + "~1": func(*diag.Fact) {}},
	} {
		r := walkWith(t, with(answers{reach: silent, reach + "~host-view": silent}, spoil))
		if b := hopOf(r, diag.HopNodeRuntimeAPI); b.Status != diag.StatusFail {
			t.Fatalf("%s: %s", name, b.Status)
		}
		for _, b := range append(r.Verdict.OtherFindings, blameOf(r)) {
			if (b.Confidence == diag.Proven && b.Signal != diag.SigNetworkUnstable) ||
				(b.Unproven == "" && b.Signal == diag.SigAPIUnreachable && b.Hop == diag.HopNodeRuntimeAPI) {
				t.Errorf("%s: %s is %s (%q)", name, b.Signal, b.Confidence, b.Unproven)
			}
		}
	}
}

func sentAgain(f *diag.Fact) {
	n := int64(1)
	f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443", Resent: &n}
}

// timed records when each request came, and answers some of them only after a while.
type timed struct {
	scripted
	mu    sync.Mutex // guards asked
	start time.Time
	asked map[string]time.Duration
	takes map[string]time.Duration // until the answer, by request; it fails if its time-out is shorter
}

func (m *timed) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	facts := make([]diag.Fact, len(reqs))
	var wg sync.WaitGroup
	for i, req := range reqs {
		wg.Go(func() {
			m.mu.Lock()
			m.asked[req.ID] = time.Since(m.start)
			m.mu.Unlock()
			step, name, _ := hop.SplitID(req.ID)
			wait := m.takes[strings.TrimSuffix(step+"~"+name, "~")]
			own := time.Duration(req.TimeoutMS) * time.Millisecond
			select {
			case <-time.After(min(wait, own)):
			case <-ctx.Done():
				facts[i] = diag.Fact{ID: req.ID, Vantage: m.name, Request: req, Failure: diag.Cancelled}
				return
			}
			facts[i] = m.scripted.Probe(ctx, []diag.Request{req})[0]
			if wait > own {
				failWith(diag.TCPTimeout, "tcp")(&facts[i])
			}
		})
	}
	wg.Wait()
	return facts
}

// A silent request is repeated after a second, while it is still open, in turn with its counter-probes, and the walk
// takes no longer. A request with an effect is sent once, however long it is silent.
func TestRepeatsRunBesideTheSilence(t *testing.T) {
	const never = time.Hour
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		vantages := map[string]*timed{}
		v := map[string]hop.Vantage{}
		for _, name := range []string{hop.Operator, hop.Node, hop.Platform} {
			vantages[name] = &timed{scripted: scripted{name: name}, start: began, asked: map[string]time.Duration{},
				takes: map[string]time.Duration{
					reach: never, "terminal_token_mint/mint": never, "node_task_roundtrip/task": never,
				}}
			v[name] = vantages[name]
		}
		e := testEnv()
		plan := testPlan(e)
		facts, ended := walk.Walk(context.Background(), e, plan, v, nil)
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("the walk took %s", d)
		}
		r := &diag.Report{Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan, Facts: facts,
			Run: diag.Run{EndedBy: ended}}
		verdict.Judge(hops.BuiltIn(), r)
		asked := vantages[hop.Node].asked
		at := func(id string) time.Duration {
			d, ok := asked[id]
			if !ok {
				t.Errorf("%s was not asked: %v", id, asked)
			}
			return d
		}
		if d := at(reach + "~1"); d < time.Second || d > 1100*time.Millisecond {
			t.Errorf("asked again after %s", d)
		}
		order := []time.Duration{at(reach + "~1"), at(reach + "~other-listener"), at(reach + "~5"),
			at(reach + "~other-listener~2"), at(reach + "~9"), at(reach + "~other-listener~6")}
		if !slices.IsSorted(order) {
			t.Errorf("not in turn: %v", order)
		}
		if order[4] > 4*time.Second {
			t.Errorf("the last round began after the question's own end: %v", order)
		}
		for _, f := range facts {
			step, _, n := hop.SplitID(f.ID)
			if n > 0 && step != reach {
				t.Errorf("%s was asked again", f.ID)
			}
		}
	})
}

// A late answer is an answer: the results of repeats that ran meanwhile are dropped.
func TestALateAnswerIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &diag.Report{}
		e := testEnv()
		v := map[string]hop.Vantage{}
		for _, name := range []string{hop.Operator, hop.Node, hop.Platform} {
			v[name] = &timed{scripted: scripted{name: name}, start: time.Now(), asked: map[string]time.Duration{},
				takes: map[string]time.Duration{
					reach: 2500 * time.Millisecond, stream: 1500 * time.Millisecond,
					"control_plane_access/healthz": 1200 * time.Millisecond,
				}}
		}
		plan := testPlan(e)
		facts, ended := walk.Walk(context.Background(), e, plan, v, nil)
		*r = diag.Report{Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan, Facts: facts,
			Run: diag.Run{EndedBy: ended}}
		verdict.Judge(hops.BuiltIn(), r)
		if r.Verdict.Outcome != diag.OutcomePass {
			t.Errorf("%s\n%s", r.Verdict.Outcome, describe(r))
		}
	})
}

// A report of rules without repeats keeps its stated verdict, and its replay is likely at most, with the reason, even
// if its proof counted a probe that only got further as a pass.
func TestOlderReportsAreLikelyAtMost(t *testing.T) {
	for name, tc := range map[string]struct {
		pinned func(*diag.Fact)
		why    string
	}{
		"a pair": {func(*diag.Fact) {}, "each ran once"},
		"one that came further, to a connection that is refused": {failWith(diag.TCPRefused, "tcp"), ""},
	} {
		r := walkWith(t, answers{
			reach: failWith(diag.DNSTimeout, "dns"), reach + "~host-view": failWith(diag.DNSTimeout, "dns"),
			reach + "~pinned": tc.pinned,
		})
		r.Facts = slices.DeleteFunc(r.Facts, func(f diag.Fact) bool { _, _, n := hop.SplitID(f.ID); return n > 0 })
		r.Verdict.Confidence = diag.Proven
		r.Verdict.Proof = &diag.Proof{Failing: reach, Passing: reach + "~pinned", Changed: "resolve",
			Text: "as it was said then"}
		again, err := verdict.Replay(hops.BuiltIn(), r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		v := again.Verdict
		if v.Confidence == diag.Proven || v.Proof != nil || !strings.Contains(v.Unproven, tc.why) ||
			(v.Unproven == "") != (tc.why == "") {
			t.Errorf("%s: %s, %+v, %q", name, v.Confidence, v.Proof, v.Unproven)
		}
	}
}

// A counter-probe over the connection of another request does not count, and is sent once more instead.
func TestAConnectionOfAnotherDoesNotCount(t *testing.T) {
	r := walkWith(t, answers{
		reach: failWith(diag.TLSUnknownCA, "tls"), reach + "~host-view": failWith(diag.TLSUnknownCA, "tls"),
		reach + "~active-bundle": func(f *diag.Fact) {
			f.TCP = &diag.TCPFacts{Remote: "192.0.2.11:443", Reused: !f.Request.Fresh}
		},
	})
	if p := r.Verdict.Proof; p == nil || p.Changed != "ca_inline" || p.Passed < reading.Repeats {
		t.Errorf("%+v, %q\n%s", p, r.Verdict.Unproven, describe(r))
	}
}

// A missing host of the same network is tcp_no_route once the kernel has given up, and tcp_timeout before. A repeat may
// end before that, and both results count as equal.
func TestAHostThatIsNotThereFailsAlike(t *testing.T) {
	gone := func(f *diag.Fact) {
		failWith(diag.TCPNoRoute, "tcp")(f)
		if strings.Contains(f.ID, "~") {
			f.Failure = diag.TCPTimeout
		}
	}
	r := walkWith(t, answers{
		reach: gone, reach + "~bare": gone,
		"terminal_public_route/healthz":      failWith(diag.TCPTimeout, "tcp"),
		"terminal_public_route/healthz~bare": failWith(diag.TCPTimeout, "tcp"),
	})
	v := r.Verdict
	if v.Blame == nil || v.Blame.Hop != diag.HopNodeRuntimeAPI || v.Confidence != diag.Proven ||
		v.Proof.Changed != "target" {
		t.Errorf("%+v %s %+v %q", v.Blame, v.Confidence, v.Proof, v.Unproven)
	}
	if strings.Contains(describe(r), "intermittent") {
		t.Error(describe(r))
	}
}
