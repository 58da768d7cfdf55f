package main

import (
	"testing"
	"time"
)

// TestExportWaitsForTheSilent: the rounds of an outage move nothing on, so that what its end brings to light is shipped;
// yet nobody is asked for more than the history that was wanted.
func TestExportWaitsForTheSilent(t *testing.T) {
	o := &exportOptions{}
	o.history.since = 2 * time.Hour
	start := time.Unix(1_800_000_000, 0)
	since := o.nextSince(start.Add(-o.history.since), start, true)
	if want := start.Add(-exportOverlap); !since.Equal(want) {
		t.Errorf("after a whole round: since %s, want %s", since, want)
	}
	for minute := range 90 {
		since = o.nextSince(since, start.Add(time.Duration(minute)*time.Minute), false)
	}
	if want := start.Add(-exportOverlap); !since.Equal(want) {
		t.Errorf("after an outage of 90 minutes: since %s, want %s", since, want)
	}
	if got, want := o.nextSince(since, start.Add(72*time.Hour), false), start.Add(70*time.Hour); !got.Equal(want) {
		t.Errorf("after three days: since %s, want %s", got, want)
	}
}
