package recording

import (
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// MachineJournal returns the journal of a machine that reverted because the lease was not renewed.
func MachineJournal() []byte {
	d := step.Drill{
		Schema: step.Schema, Run: "261121-090000-ab12", Scenario: "api-egress-blocked", Node: "compute-node-01",
		By: "ann@laptop", TTL: 90_000,
		Steps: []step.Step{{ID: "block", Fault: "net-block", Tier: step.TierKernel,
			Changes: []step.Change{{Block: &step.Block{}}}}},
	}
	n, began := 0, time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	b := make([]byte, 64*step.BlockSize)
	at := 0
	for i, e := range []struct {
		ms int64
		step.Entry
	}{
		{900, step.Entry{Event: step.EventDrill, Note: d.Encode(), By: step.ByCLI}},
		{1100, step.Entry{Event: step.EventArmed, By: step.ByCLI}},
		{1200, step.Entry{Event: step.EventChange, Step: "block", Change: &n, State: step.Done, By: step.ByWatchdog}},
		{24_000, step.Entry{Event: step.EventRevert, Text: step.WhyLease, By: step.ByWatchdog}},
		{24_031, step.Entry{Event: step.EventChange, Step: "block", Change: &n, State: step.Reverted, By: step.ByWatchdog}},
	} {
		e.Seq, e.At, e.Boot, e.BootNS = i+1, began.Add(time.Duration(e.ms)*time.Millisecond), "b1",
			e.ms*int64(time.Millisecond)
		at += copy(b[at:], step.EncodeEntry(e.Entry))
	}
	return b
}
