package preflight

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// asked is one way to ask for a walk.
type asked struct {
	only, skip []diag.HopID
	given      mask
}

// waysToAsk returns all singles and pairs of hops for --only and --skip with all inputs, and random subsets with random
// inputs.
func waysToAsk(rng *rand.Rand, drawn int) (all []asked) {
	full := func(set ...diag.HopID) {
		all = append(all, asked{only: set, given: masks()[15]}, asked{skip: set, given: masks()[15]})
	}
	for i, a := range diag.HopIDs() {
		full(a)
		for _, b := range diag.HopIDs()[i+1:] {
			full(a, b)
		}
	}
	likely := func() bool { return rng.IntN(4) > 0 }
	for range drawn {
		var set []diag.HopID
		for _, id := range diag.HopIDs() {
			if rng.IntN(2) == 0 {
				set = append(set, id)
			}
		}
		a := asked{only: set, given: mask{likely(), likely(), likely(), likely()}}
		if rng.IntN(2) == 0 {
			a.only, a.skip = nil, set
		}
		all = append(all, a)
	}
	return all
}

// walkPlan walks a healthy world as asked.
func (a asked) walk(t *testing.T) *diag.Report {
	e, o := testEnv(), hop.Options{Only: a.only, Skip: a.skip}
	e.Subject = a.given.apply(e.Subject, &o)
	plan := hops.BuiltIn().NewPlan(e.Profile, e.Subject, o)
	names := answers{"node_heartbeat/read_model": setField("node.id", e.Subject.NodeID)}
	facts, ended := walk.Walk(t.Context(), e, plan, map[string]hop.Vantage{hop.Operator: &scripted{name: hop.Operator,
		answers: names},
		hop.Node: &scripted{name: hop.Node}, hop.Platform: &scripted{name: hop.Platform}}, nil)
	r := &diag.Report{Subject: e.Subject, Plan: plan, Facts: facts,
		Run: diag.Run{CorrelationID: e.CorrelationID, EndedBy: ended}}
	verdict.Judge(hops.BuiltIn(), r)
	return r
}

// TestSubsetsOfAHealthyWorld: whatever is left out of a walk of a healthy world, nothing fails and no action is due; a
// walk that measures nothing of the node is no pass. TestHealthyNeverBlamed judges every subset of recorded facts; here
// the walk itself sends what is left.
func TestSubsetsOfAHealthyWorld(t *testing.T) {
	seed, drawn := uint64(time.Now().UnixNano()), 400
	if n, err := strconv.Atoi(os.Getenv("GPUAASCTL_SUBSETS")); err == nil {
		drawn = n
	}
	if n, err := strconv.ParseUint(os.Getenv("GPUAASCTL_SUBSETS_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("GPUAASCTL_SUBSETS_SEED=%d", seed)
	synctest.Test(t, func(t *testing.T) {
		for _, a := range waysToAsk(rand.New(rand.NewPCG(seed, 0)), drawn) {
			r := a.walk(t)
			nothing := !slices.ContainsFunc(r.Hops, func(h diag.HopResult) bool { return h.Status != diag.StatusSkipped })
			want := diag.OutcomePass
			if hops.BuiltIn().WantsNode(r.Plan) && !hops.BuiltIn().AsksNode(r.Plan) {
				want = diag.OutcomeInconclusive // it would be the same for any name
			}
			if (r.Verdict.Outcome != want && !nothing) || r.Verdict.Reason != diag.ReasonNone || r.Verdict.Blame != nil {
				t.Errorf("%s: %s, want %s; reason %q, because %v\n%s", fmt.Sprint(a), r.Verdict.Outcome, want, r.Verdict.Reason,
					r.Classification.Because, describe(r))
			}
			for _, f := range r.Facts {
				name, _, _ := strings.Cut(f.ID, "/")
				if row := (&hop.Case{Plan: r.Plan}).Planned(diag.HopID(name)); row.Skip != "" {
					t.Errorf("%s: %s was sent, and its hop is skipped: %s", fmt.Sprint(a), f.ID, row.Skip)
				}
			}
		}
	})
}
