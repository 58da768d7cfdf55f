package diagcmd

import (
	"bytes"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/evidence"
)

// TestExportWaitsForTheSilent: rounds during an outage do not advance the start time, so that events of the outage are
// exported after it; yet no query exceeds the requested history.
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

// TestExportSaysOnceWhoIsSilent: an outage of a hundred rounds gives two notes, at its beginning and its end.
func TestExportSaysOnceWhoIsSilent(t *testing.T) {
	var said bytes.Buffer
	a, silent := &cmdutil.App{Stderr: &said}, map[string]string{}
	round := func(status string) {
		m := &evidence.Manifest{EndedBy: diag.EndedCompleted,
			Sources: []evidence.Gathered{{Source: "record", Status: status, Why: "ssh_timeout"}}}
		noteChanged(a, m, silent)
	}
	for range 100 {
		round(evidence.GotNothing)
	}
	round(evidence.GotPart)
	round(evidence.GotWhole)
	round(evidence.GotWhole)
	want := "gpuaasctl: record is missing: ssh_timeout\ngpuaasctl: record is partial: ssh_timeout\ngpuaasctl: record is " +
		"complete again\n"
	if said.String() != want {
		t.Errorf("said:\n%s", said.String())
	}
}
