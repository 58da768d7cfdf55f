package preflight

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// part returns a recorded walk as --only and --skip would have made it.
func part(r *diag.Report, only, skip []diag.HopID) *diag.Report {
	plan := hops.BuiltIn().NewPlan(profileOf(r), r.Subject, hop.Options{
		Only: only, Skip: skip, Session: true, Token: true, SSH: r.Subject.NodeHost != "",
	})
	for i := range plan.Hops { // what the whole walk did not do, its part does not do either
		had := (&hop.Case{Plan: r.Plan}).Planned(plan.Hops[i].ID)
		if plan.Hops[i].Skip == "" && had.Skip != "" {
			plan.Hops[i] = *had
		}
	}
	plan.Command = r.Plan.Command
	return cut(r, r.Subject, plan, nil)
}

// contradicts describes how the verdict of a part of a walk contradicts the whole walk's; "" if it only knows less. The
// same cause may be reported at another hop. With --skip a failing hop may be blamed as long as the report states that
// what may explain it was left out; --only brings that.
func contradicts(whole, part *diag.Verdict, skip bool) string {
	b := part.Blame
	same := func(o diag.Blame) bool {
		return o.Signal == b.Signal && (o.Hop == b.Hop || o.Owner == part.Owner)
	}
	switch {
	case b == nil || b.Status != "":
		return ""
	case whole.Blame == nil:
		return "the whole walk blames nothing"
	case same(diag.Blame{Hop: whole.Blame.Hop, Signal: whole.Blame.Signal, Owner: whole.Owner}),
		slices.ContainsFunc(whole.OtherFindings, same):
		return ""
	case part.Confidence == diag.Possible && b.Hop == whole.Blame.Hop,
		part.Confidence == diag.Possible && skip && strings.Contains(part.Unproven, "left out"):
		return ""
	}
	return fmt.Sprintf("the whole walk blames %s (%s)", whole.Blame.Hop, whole.Blame.Signal)
}

// TestPartsBlameNothingElse: a part of a recorded walk knows less than the whole, and blames nothing else: every single
// hop in --only and in --skip, and random sets of hops (more with GPUAASCTL_SUBSETS=all).
func TestPartsBlameNothingElse(t *testing.T) {
	seed, drawn := uint64(time.Now().UnixNano()), 10
	if os.Getenv("GPUAASCTL_SUBSETS") == "all" {
		drawn = 500
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	sets := [][]diag.HopID{}
	for _, id := range diag.HopIDs() {
		sets = append(sets, []diag.HopID{id})
	}
	for range drawn {
		sets = append(sets, namesOf(rng.Uint32()&(1<<len(diag.HopIDs())-1)))
	}
	for name, r := range recordings(t) {
		whole := &part(r, nil, nil).Verdict
		if verdict.Stated(r).Hop != verdict.Stated(&diag.Report{Verdict: *whole}).Hop {
			t.Fatalf("%s: the plan of the whole walk is not the recorded one: %v, not %v", name, whole.Blame, r.Verdict.Blame)
		}
		for _, set := range sets {
			for flag, v := range map[string]*diag.Verdict{
				"--only": &part(r, set, nil).Verdict, "--skip": &part(r, nil, set).Verdict,
			} {
				if why := contradicts(whole, v, flag == "--skip"); why != "" {
					t.Errorf("%s %s %v: %s; this part blames %s (%s), %s, owner %s", name, flag, set, why, v.Blame.Hop,
						v.Blame.Signal, v.Confidence, v.Owner)
				}
			}
		}
	}
}

// onlyOf returns the hops of a command's --only.
func onlyOf(line string) (ids []diag.HopID) {
	_, list, _ := strings.Cut(line, " --only ")
	for id := range strings.SplitSeq(list, ",") {
		ids = append(ids, diag.HopID(id))
	}
	return ids
}

// TestVerifyIsRedWhileTheFaultIsThere: the command that proves the repair walks the blamed hop, and on the facts of the
// failing walk itself it reaches the same blame.
func TestVerifyIsRedWhileTheFaultIsThere(t *testing.T) {
	all, n := recordings(t), 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		b := r.Verdict.Blame
		if b == nil {
			continue
		}
		n++
		only := onlyOf(r.Verdict.RepairProof)
		if !slices.Contains(only, b.Hop) {
			t.Errorf("%s blames %s, and %q does not walk it", name, b.Hop, r.Verdict.RepairProof)
		}
		again := part(r, only, nil).Verdict
		if again.Outcome != r.Verdict.Outcome || again.Blame == nil || again.Blame.Hop != b.Hop ||
			again.Blame.Signal != b.Signal {
			t.Errorf("%s blames %s (%s); on the same facts %q is %s, blame %v", name, b.Hop, b.Signal,
				r.Verdict.RepairProof, again.Outcome, again.Blame)
		}
	}
	if n < 50 {
		t.Errorf("%d recordings blame a hop", n)
	}
}
