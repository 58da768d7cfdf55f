package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// stretch is a part of a run, in milliseconds since its start.
type stretch struct{ from, to int64 }

// polls returns how long a run spent on its walks, including the pauses between walks of a stage, and on its
// independent probes. Concurrent stretches count once.
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
	return time.Duration(covered(all)) * time.Millisecond
}

// covered returns how much of the run the stretches cover.
func covered(all []stretch) int64 {
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	var sum, end int64
	for _, s := range all {
		sum += max(0, s.to-max(s.from, end))
		end = max(end, s.to)
	}
	return sum
}
