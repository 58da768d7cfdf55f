package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// stretch is a part of a run, in milliseconds since it began.
type stretch struct{ from, to int64 }

// polls is how long a run was at what a drill is there for: its walks, with the pauses between those of one stage, and
// its independent probes. What goes on at the same time counts once.
func polls(s drill.Story) time.Duration {
	var all []stretch
	spans := map[drill.Stage]stretch{}
	for _, w := range s.Walks {
		span, ok := spans[w.Stage]
		if !ok {
			span = stretch{w.BeganMS, w.EndedMS}
		}
		spans[w.Stage] = stretch{min(span.from, w.BeganMS), max(span.to, w.EndedMS)}
	}
	for _, span := range spans {
		all = append(all, span)
	}
	for _, l := range s.Looks {
		all = append(all, stretch{l.MS - int64(l.TookMS), l.MS})
	}
	return time.Duration(together(all)) * time.Millisecond
}

// together is how much of the run the stretches cover.
func together(all []stretch) int64 {
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	var sum, end int64
	for _, s := range all {
		sum += max(0, s.to-max(s.from, end))
		end = max(end, s.to)
	}
	return sum
}
