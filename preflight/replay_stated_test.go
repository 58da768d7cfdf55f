package preflight

import (
	"reflect"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// TestComparedNamesWhatWasStated: a difference in any part of the stated verdict is noticed, other rules alone are not,
// and a replay of a replay is the same report.
func TestComparedNamesWhatWasStated(t *testing.T) {
	walked := walkWith(t,
		answers{"node_ops_access/ssh": func(f *diag.Fact) { f.Failure, f.Phase, f.SSH = diag.TCPRefused, "tcp", nil }})
	if walked.Verdict.Blame == nil {
		t.Fatal("the walk blames nothing")
	}
	blame := func(r *diag.Report, change func(*diag.Blame)) {
		b := *r.Verdict.Blame
		change(&b)
		r.Verdict.Blame = &b
	}
	for name, c := range map[string]struct {
		edit func(*diag.Report)
		same bool
	}{
		"nothing":          {func(*diag.Report) {}, true},
		"the rules alone":  {func(r *diag.Report) { r.Run.RulesVersion = "0" }, true},
		"the outcome":      {func(r *diag.Report) { r.Verdict.Outcome = diag.OutcomePass }, false},
		"the first failed": {func(r *diag.Report) { r.Verdict.FirstFailedHop = diag.HopAppUserRoute }, false},
		"the hop":          {func(r *diag.Report) { blame(r, func(b *diag.Blame) { b.Hop = diag.HopAppUserRoute }) }, false},
		"the signal": {func(r *diag.Report) { blame(r, func(b *diag.Blame) { b.Signal = diag.SigNodeStreamTimeout }) },
			false},
		"the failure word": {func(r *diag.Report) { blame(r, func(b *diag.Blame) { b.Failure = diag.TCPTimeout }) }, false},
		"no blame":         {func(r *diag.Report) { r.Verdict.Blame = nil }, false},
		"the confidence":   {func(r *diag.Report) { r.Verdict.Confidence += "x" }, false},
		"the reason":       {func(r *diag.Report) { r.Verdict.Reason = "x" }, false},
	} {
		file := *walked
		c.edit(&file)
		first := replayed(t, &file)
		if (first.Replayed == nil) != c.same {
			t.Errorf("%s: replayed is %+v", name, first.Replayed)
			continue
		}
		if !c.same && first.Replayed.Stated != verdict.Stated(&file) {
			t.Errorf("%s: stated %+v, want %+v", name, first.Replayed.Stated, verdict.Stated(&file))
		}
		if second := replayed(t, first); !reflect.DeepEqual(first, second) {
			t.Errorf("%s: a replay of the replay differs: %+v, then %+v", name, first.Replayed, second.Replayed)
		}
	}
}

func replayed(t *testing.T, r *diag.Report) *diag.Report {
	t.Helper()
	again, err := verdict.Replay(hops.BuiltIn(), r)
	if err != nil {
		t.Fatal(err)
	}
	verdict.Compared(r, again)
	return again
}
