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
	"github.com/gpuaas/gpuaasctl/preflight/compare"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// exampleHop is a hop without a row in the catalogue. It needs a login, and fails if its service answers 503.
func exampleHop() hop.Hop {
	const id = diag.HopID("x.example")
	return hop.Hop{
		ID: id, Budget: 5 * time.Second,
		Meaning: hop.Meaning{Title: "the example service answers", Layer: diag.LayerRuntime},
		Causes:  hop.Causes{ExplainedBy: []diag.HopID{diag.HopNodeOpsAccess}},
		Steps: []hop.Step{{
			Name: "health", From: hop.Node, Timeout: time.Second,
			Needs: hop.Needs{Hops: []diag.HopID{diag.HopNodeOpsAccess}},
			Ask: func(*hop.Env, *hop.Case) diag.Request {
				return diag.Request{Op: diag.OpHTTP, Target: "http://192.0.2.7/"}
			},
		}},
		Judge: func(c *hop.Case) []diag.Finding {
			f := c.Fact(id, "health")
			if f.Passed() || f == nil {
				return nil
			}
			return []diag.Finding{reading.Fail(diag.SigAppStopped, f, "the example service: %s", reading.Saw(f))}
		},
		Pass: func(*hop.Case) string { return "the example service answers" },
	}
}

// TestAWalkWithAnOwnHop: a hop that is only in the chain of one walk is planned, measured, judged, replayed, printed
// and kept in a drill's view of the walk like the built-in ones. The walks run at the same time as one with the
// built-in chain.
func TestAWalkWithAnOwnHop(t *testing.T) {
	own := exampleHop()
	chain := hops.WithOwn(own)
	for want, answer := range map[diag.Status]func(*diag.Fact){
		diag.StatusPass: func(*diag.Fact) {},
		diag.StatusFail: failWith(diag.HTTPStatus, "http"),
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			e := testEnv()
			e.Hops = chain
			answers := map[string]func(*diag.Fact){"x.example/health": answer}
			v := map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator}, hop.Platform: &scripted{name: hop.Platform},
				hop.Node: &scripted{name: hop.Node, answers: answers}}
			r := inMadeUpTime(t, func(t *testing.T) *diag.Report { return walkFrom(t.Context(), e, v) })
			again, err := verdict.Replay(chain, r)
			if err != nil {
				t.Fatal(err)
			}
			builtIn, err := verdict.Replay(hops.BuiltIn(), r) // by a tool without the hop
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*diag.Report{r, again, builtIn} {
				got := hopOf(r, own.ID)
				if got.Status != want || got.Title != own.Title || len(got.Evidence) == 0 ||
					len(r.Hops) != len(usualHops())+1 {
					t.Errorf("%d hops, and it is %+v", len(r.Hops), got)
				}
				if b := r.Verdict.Blame; (want == diag.StatusFail) != (b != nil && b.Hop == own.ID) {
					t.Errorf("the blame is %+v", b)
				}
				var text strings.Builder
				if err := render.Report(&text, r, render.Options{Format: render.Wide}); err != nil {
					t.Error(err)
				}
				if !strings.Contains(text.String(), string(own.ID)) || !strings.Contains(text.String(), got.Text) {
					t.Errorf("the hop is not printed:\n%s", text.String())
				}
				s := drill.NewWalkView(r, drill.Before)
				if ids := s.HopIDs(); s.Hops[own.ID] != want || ids[len(ids)-1] != own.ID {
					t.Errorf("the view has %v", ids)
				}
			}
		})
	}
	if r := walkWith(t, nil); reading.HopNamed(r.Hops, own.ID).Status != "" {
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
			r.Facts = append(r.Facts, diag.Fact{ID: "x.vpn/ping", Vantage: hop.Node, DurationMS: 1})
			if r.Hops = append(r.Hops, h); first {
				r.Hops = append([]diag.HopResult{h}, r.Hops[:len(r.Hops)-1]...)
			}
			for range 2 { // and the replay of a replay
				again, err := verdict.Replay(hops.BuiltIn(), r)
				if err != nil {
					t.Fatal(err)
				}
				got := reading.HopNamed(again.Hops, own)
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
	own, slow := exampleHop(), exampleHop()
	own.Opens, own.Unwatched = "vpn", "the tunnel"
	slow.ID, slow.Judge = "x.slow", func(*hop.Case) []diag.Finding { return nil }
	slow.Steps[0].From, slow.Steps[0].Needs = hop.Operator, hop.Needs{}
	chain := hops.WithOwn(own, slow)
	only, err := chain.Check("only", []string{string(own.ID)})
	if _, unknown := hops.BuiltIn().Check("only", []string{string(own.ID)}); err != nil || unknown == nil {
		t.Errorf("%v, and by the built-in chain %v", err, unknown)
	}
	e := testEnv()
	e.Hops = chain
	plan := chain.NewPlan(e.Profile, e.Subject, hop.Options{Only: only, Token: true, SSH: true})
	if p := chain.NewCase(e.Subject, plan, "", nil).Planned; p(own.ID).Skip != "" || p(slow.ID).Skip != hop.SkipOnly ||
		!chain.Reaches(plan, "vpn") {
		t.Errorf("%+v", plan.Hops)
	}
	left := compare.NotAsked{Hop: own.ID, What: own.Unwatched, Because: hop.SkipWatch}
	if w := compare.NewWatched(chain, plan, "node-1", 30000, false); !slices.Contains(w.NotAsked, left) {
		t.Errorf("the watch leaves out %+v", w.NotAsked)
	}

	answers := map[string]func(*diag.Fact){"x.example/health": failWith(diag.HTTPStatus, "http")}
	v := map[string]hop.Vantage{}
	for _, name := range []string{hop.Operator, hop.Node, hop.Platform} {
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
	diag.FactsByID(r.Facts)["x.slow/health"].DurationMS = 5000
	for name, h := range map[string]*hop.Chain{"of the walk": chain, "built-in": hops.BuiltIn()} {
		said := walk.Rehearse(h, r)
		if len(said) != 1 || said[0].Blame == nil || said[0].Blame.Hop != own.ID ||
			!slices.Equal(said[0].Waiting, []diag.HopID{slow.ID}) {
			t.Errorf("the rehearsal by the chain %s: %+v", name, said)
		}
	}
	r.Run.RulesVersion = "1"
	*reading.HopNamed(r.Hops, own.ID) = diag.HopResult{ID: own.ID, Finding: diag.Finding{Status: diag.StatusPass}}
	if got := hopOf(verdict.AsToday(chain, r), own.ID); got.Status != diag.StatusFail {
		t.Errorf("by today's rules it is %+v", got)
	}
}
