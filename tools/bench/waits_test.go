package main

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// TestPolls: overlapping stretches count once, a pause between two walks of a stage counts as waiting, and one
// between stages as work.
func TestPolls(t *testing.T) {
	s := drill.Story{
		Walks: []drill.WalkView{
			{Stage: drill.Before, BeganMS: 0, EndedMS: 400},
			{Stage: drill.During, BeganMS: 1000, EndedMS: 2000},
			{Stage: drill.During, BeganMS: 2300, EndedMS: 3000},
			{Stage: drill.After, BeganMS: 3200, EndedMS: 3500},
		},
		Looks: []drill.ProbeResult{
			{Seen: drill.Seen{TookMS: 100}, MS: 500},  // right after the first walk
			{Seen: drill.Seen{TookMS: 50}, MS: 500},   // at the same time
			{Seen: drill.Seen{TookMS: 500}, MS: 1600}, // during a walk
			{Seen: drill.Seen{TookMS: 200}, MS: 3300}, // half before a walk
		},
	}
	if got, want := polls(s), 2900*time.Millisecond; got != want { // 0-500, 1000-3000, 3100-3500
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPercentile(t *testing.T) {
	var all []time.Duration
	for i := range 20 {
		all = append(all, time.Duration(20-i))
	}
	for p, want := range map[int]time.Duration{50: 10, 95: 19, 100: 20, 1: 1} {
		if got := percentile(all, p); got != want {
			t.Errorf("percentile %d: got %d, want %d", p, got, want)
		}
	}
}
