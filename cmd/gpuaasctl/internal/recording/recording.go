// Package recording has synthetic runs of drills as events with times, for tests of the views. The plans have a
// scenario's own texts; machines and times are made up.
package recording

import (
	"embed"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// Moment is one event of a run, or one of a walk. At counts from the start of the run.
type Moment struct {
	At    time.Duration
	Event drill.Event
	Walk  *walk.Event
}

// logs have the events of each run, as a drill's own log has them.
//
//go:embed *.ndjson
var logs embed.FS

// Runs returns three runs: a stop that passes, dropped packets, and three faults of which one is detected late and one
// machine has a conflict at the end.
func Runs() [][]Moment {
	return [][]Moment{read("agent-stopped"), read("api-egress-blocked"), read("three-faults")}
}

// read adds the events of walks to a log, which has only the result of each walk.
func read(name string) (moments []Moment) {
	f, err := logs.Open(name + ".ndjson")
	if err != nil {
		panic(err) // a file of this package
	}
	events, _, err := drill.ReadEvents(f)
	if err != nil {
		panic(name + ": " + err.Error())
	}
	for _, e := range events {
		if e.Kind == drill.Walked {
			moments = append(moments, walked(e.WalkView)...)
		}
		moments = append(moments, Moment{At: millis(e.MS), Event: e})
	}
	return moments
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// hopTime is how long a hop of a walk takes, and between is from one's start to the next one's.
const (
	hopTime = 60 * time.Millisecond
	between = 30 * time.Millisecond
)

// walked returns the events of a walk that measured the chain's hops one after the other.
func walked(s *drill.WalkView) (moments []Moment) {
	at := millis(s.BeganMS)
	tell := func(e walk.Event) {
		e.At = at - millis(s.BeganMS)
		moments = append(moments, Moment{At: at, Walk: &e})
	}
	for i, hop := range hops.BuiltIn().List() {
		f := diag.Finding{Status: s.Hops[hop.ID]}
		if f.Status == "" || f.Status == diag.StatusSkipped {
			continue
		}
		if b := s.Blame; b != nil && b.Hop == hop.ID {
			f.Signal, f.Failure = b.Signal, b.Failure
		}
		tell(walk.Event{Kind: walk.HopStarted, Hop: hop.ID})
		if at += between; i%2 == 1 {
			at += hopTime
		}
		tell(walk.Event{Kind: walk.HopDone, Hop: hop.ID,
			Result: diag.HopResult{ID: hop.ID, Finding: f, DurationMS: diag.Measured(hopTime + between*time.Duration(i%3))}})
	}
	return moments
}
