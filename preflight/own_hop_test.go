package preflight

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// exampleHop is a hop without a row in the catalogue. It needs a login, and fails if its service answers 503.
func exampleHop() Hop {
	const id = diag.HopID("x.example")
	return Hop{
		ID: id, Title: "the example service answers", Layer: diag.LayerRuntime, Budget: 5 * time.Second,
		ExplainedBy: []diag.HopID{diag.HopNodeOpsAccess},
		Steps: []Step{{
			Name: "health", From: Node, Timeout: time.Second, Needs: []diag.HopID{diag.HopNodeOpsAccess},
			Ask: func(*Env, *Case) diag.Request { return diag.Request{Op: diag.OpHTTP, Target: "http://192.0.2.7/"} },
		}},
		Judge: func(c *Case) []diag.Finding {
			f := c.Fact(id, "health")
			if f.Passed() || f == nil {
				return nil
			}
			return []diag.Finding{fail(diag.SigAppStopped, f, "the example service: %s", saw(f))}
		},
		Pass: func(*Case) string { return "the example service answers" },
	}
}

// TestAWalkWithAnOwnHop: a hop that is only in the chain of one walk is planned, measured, judged, replayed, printed
// and kept in a drill's view of the walk like the built-in ones. The walks run at the same time as one with the
// built-in chain.
func TestAWalkWithAnOwnHop(t *testing.T) {
	hop := exampleHop()
	chain := WithOwn(hop)
	for want, answer := range map[diag.Status]func(*diag.Fact){
		diag.StatusPass: func(*diag.Fact) {},
		diag.StatusFail: failWith(diag.HTTPStatus, "http"),
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			e := testEnv()
			e.Hops = chain
			answers := map[string]func(*diag.Fact){"x.example/health": answer}
			v := map[string]Vantage{Operator: &scripted{name: Operator}, Platform: &scripted{name: Platform},
				Node: &scripted{name: Node, answers: answers}}
			r := inMadeUpTime(t, func(t *testing.T) *diag.Report { return walkFrom(t.Context(), e, v) })
			again, err := Replay(chain, r)
			if err != nil {
				t.Fatal(err)
			}
			builtIn, err := Replay(BuiltIn(), r) // by a tool without the hop
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*diag.Report{r, again, builtIn} {
				got := hopOf(r, hop.ID)
				if got.Status != want || got.Title != hop.Title || len(got.Evidence) == 0 || len(r.Hops) != len(BuiltIn().List())+1 {
					t.Errorf("%d hops, and it is %+v", len(r.Hops), got)
				}
				if b := r.Verdict.Blame; (want == diag.StatusFail) != (b != nil && b.Hop == hop.ID) {
					t.Errorf("the blame is %+v", b)
				}
				var text strings.Builder
				if err := render.Report(&text, r, render.Options{Format: render.Wide}); err != nil {
					t.Error(err)
				}
				if !strings.Contains(text.String(), string(hop.ID)) || !strings.Contains(text.String(), got.Text) {
					t.Errorf("the hop is not printed:\n%s", text.String())
				}
				s := drill.NewWalkView(r, drill.Before)
				if ids := s.HopIDs(); s.Hops[hop.ID] != want || ids[len(ids)-1] != hop.ID {
					t.Errorf("the view has %v", ids)
				}
			}
		})
	}
	if r := walkWith(t, nil); hopNamed(r.Hops, hop.ID).Status != "" {
		t.Error("the built-in chain has the hop of another walk")
	}
}

// TestReplayKeepsOwnHops: a hop that only another tool's profile has is neither dropped nor counted as a pass, wherever
// it is in the report.
func TestReplayKeepsOwnHops(t *testing.T) {
	const own = diag.HopID("x.vpn")
	for status, want := range map[diag.Status]diag.Outcome{
		diag.StatusPass: diag.OutcomePass, diag.StatusWarn: diag.OutcomeWarn, diag.StatusFail: diag.OutcomeFail,
		diag.StatusInconclusive: diag.OutcomeInconclusive, diag.StatusSkipped: diag.OutcomePass,
	} {
		for _, first := range []bool{false, true} {
			r := walkWith(t, nil)
			h := diag.HopResult{ID: own, Title: "the VPN is up", Layer: diag.LayerRuntime,
				Finding: diag.Finding{Status: status, Text: "the tunnel is down", Because: "nobody answered"}}
			r.Facts = append(r.Facts, diag.Fact{ID: "x.vpn/ping", Vantage: Node, DurationMS: 1})
			if r.Hops = append(r.Hops, h); first {
				r.Hops = append([]diag.HopResult{h}, r.Hops[:len(r.Hops)-1]...)
			}
			for range 2 { // and the replay of a replay
				again, err := Replay(BuiltIn(), r)
				if err != nil {
					t.Fatal(err)
				}
				got := hopNamed(again.Hops, own)
				if again.Verdict.Outcome != want || got.Status != status || got.Title != h.Title {
					t.Errorf("%s: outcome %s, and the hop is %+v", status, again.Verdict.Outcome, *got)
				}
				if b := again.Verdict.Blame; (b != nil) != (status == diag.StatusFail) || (b != nil && b.Hop != own) {
					t.Errorf("%s: the blame is %+v", status, b)
				}
				var page strings.Builder
				for _, f := range []render.Format{render.Table, render.Wide, render.Short, render.JSON} {
					if err := render.Report(&page, again, render.Options{Format: f}); err != nil {
						t.Error(err)
					}
				}
				r = again
			}
		}
	}
}

// TestChainOfTheWalk: --only, the vantages of a plan, a watch, a kept walk and the rehearsal of an unfinished one know
// the walk's own hops.
func TestChainOfTheWalk(t *testing.T) {
	hop, slow := exampleHop(), exampleHop()
	hop.Opens, hop.Unwatched = "vpn", "the tunnel"
	slow.ID, slow.Judge = "x.slow", func(*Case) []diag.Finding { return nil }
	slow.Steps[0].From, slow.Steps[0].Needs = Operator, nil
	chain := WithOwn(hop, slow)
	only, err := chain.Check("only", []string{string(hop.ID)})
	if _, unknown := BuiltIn().Check("only", []string{string(hop.ID)}); err != nil || unknown == nil {
		t.Errorf("%v, and by the built-in chain %v", err, unknown)
	}
	e := testEnv()
	e.Hops = chain
	plan := chain.NewPlan(e.Profile, e.Subject, Options{Only: only, Token: true, SSH: true})
	if planned(plan, hop.ID).Skip != "" || planned(plan, slow.ID).Skip != skipOnly || !chain.Reaches(plan, "vpn") {
		t.Errorf("%+v", plan.Hops)
	}
	left := NotAsked{Hop: hop.ID, What: hop.Unwatched, Because: skipWatch}
	if w := NewWatched(chain, plan, "node-1", 30000, false); !slices.Contains(w.NotAsked, left) {
		t.Errorf("the watch leaves out %+v", w.NotAsked)
	}

	answers := map[string]func(*diag.Fact){"x.example/health": failWith(diag.HTTPStatus, "http")}
	v := map[string]Vantage{}
	for _, name := range []string{Operator, Node, Platform} {
		v[name] = &scripted{name: name, answers: answers, hang: map[string]bool{"x.slow/health": true}}
	}
	r := inMadeUpTime(t, func(t *testing.T) *diag.Report {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return walkFrom(ctx, e, v)
	})
	if r.Run.EndedBy != diag.EndedDeadline {
		t.Fatalf("the walk ended by %s", r.Run.EndedBy)
	}
	r.Run.DurationMS = 5000
	factOf(t, r, "x.slow/health").DurationMS = 5000
	for name, h := range map[string]*Hops{"of the walk": chain, "built-in": BuiltIn()} {
		said := Rehearse(h, r)
		if len(said) != 1 || said[0].Blame == nil || said[0].Blame.Hop != hop.ID ||
			!slices.Equal(said[0].Waiting, []diag.HopID{slow.ID}) {
			t.Errorf("the rehearsal by the chain %s: %+v", name, said)
		}
	}
	r.Run.RulesVersion = "1"
	*hopNamed(r.Hops, hop.ID) = diag.HopResult{ID: hop.ID, Finding: diag.Finding{Status: diag.StatusPass}}
	if got := hopOf(AsToday(chain, r), hop.ID); got.Status != diag.StatusFail {
		t.Errorf("by today's rules it is %+v", got)
	}
}
