package recording

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// Walk returns the events of a recorded walk, computed from the times of its facts.
func Walk(r *diag.Report) []walk.Event {
	facts := map[string]*diag.Fact{}
	counters := map[diag.HopID][]*diag.Fact{}
	for i := range r.Facts {
		f := &r.Facts[i]
		facts[f.ID] = f
		if hop, _, ok := strings.Cut(f.ID, "/"); ok && strings.Contains(f.ID, "~") {
			counters[diag.HopID(hop)] = append(counters[diag.HopID(hop)], f)
		}
	}
	var all []walk.Event
	for i := range r.Hops {
		h := &r.Hops[i]
		first, last := time.Duration(-1), time.Duration(0)
		for _, s := range h.Steps {
			f := facts[s.Fact]
			if f == nil || strings.Contains(s.Fact, "~") {
				continue
			}
			from, to := ran(f)
			if first < 0 || from < first {
				first = from
			}
			last = max(last, to)
			all = append(all, walk.Event{Kind: walk.StepDone, Hop: h.ID, At: to, Step: s})
		}
		if first >= 0 {
			all = append(all, walk.Event{Kind: walk.HopStarted, Hop: h.ID, At: first})
		}
		if asked := counters[h.ID]; len(asked) > 0 && first >= 0 {
			from, to := ran(asked[0])
			for _, f := range asked {
				a, b := ran(f)
				from, to = min(from, a), max(to, b)
			}
			all = append(all, walk.Event{Kind: walk.CountersStarted, Hop: h.ID, At: max(from, first),
				Count: len(asked)}, walk.Event{Kind: walk.CountersDone, Hop: h.ID, At: to, Count: len(asked)})
			last = max(last, to)
		}
		all = append(all, walk.Event{Kind: walk.HopDone, Hop: h.ID, At: last, Result: *h})
	}
	for _, p := range walk.Rehearse(hops.BuiltIn(), r) {
		all = append(all, walk.Event{Kind: walk.LikelySoFar, At: p.At, Provisional: &p})
	}
	slices.SortStableFunc(all, func(a, b walk.Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Kind, b.Kind))
	})
	return append(all, walk.Event{Kind: walk.EvidenceAwaited, At: all[len(all)-1].At})
}

// ran returns when a fact was measured, since the walk's start.
func ran(f *diag.Fact) (from, to time.Duration) {
	from = time.Duration(f.OffsetMS) * time.Millisecond
	return from, from + time.Duration(f.DurationMS)*time.Millisecond
}
