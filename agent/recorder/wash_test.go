package recorder_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// TestNothingWashesOutFirstAndLast writes many rounds of the ring, with every reason, in random order. At any
// time, and after a power cut, the record has the first entry and the last for every reason, and the update
// attempt.
func TestNothingWashesOutFirstAndLast(t *testing.T) {
	roll := rand.New(rand.NewPCG(3, 3))
	disk, c := durabletest.New(false), newClock()
	r := recorder.Open(c.config(disk, durabletest.New(false)))
	type ends struct{ first, last string }
	want := map[diag.RecordReason]ends{}
	update := ""
	for i := range 2500 {
		// A storm of one reason, with a few others in between.
		reason := diag.RecAPIUnreachable
		if roll.IntN(100) == 0 || i < len(diag.RecordReasons) {
			reason = diag.RecordReasons[(i+roll.IntN(2))%len(diag.RecordReasons)]
		}
		if reason == diag.RecRecordDegraded {
			continue
		}
		e := diag.RecordEntry{Reason: reason, About: "task", Decision: "report", Detail: fmt.Sprint("act ", i)}
		if reason == diag.RecSelfUpdateStarted {
			e.About, update = "update", e.Detail
		}
		if err := r.Write(e); err != nil {
			t.Fatal(err)
		}
		w := want[reason]
		if w.first == "" {
			w.first = e.Detail
		}
		w.last = e.Detail
		want[reason] = w
		c.now = c.now.Add(time.Second)
		if i%250 != 249 {
			continue
		}
		if i%500 == 499 { // another process goes on
			r = recorder.Open(c.config(disk, durabletest.New(false)))
		}
		f := on(t, disk)
		have := map[diag.RecordReason]ends{}
		for _, e := range f.Pinned {
			h := have[e.Reason]
			switch e.Pin {
			case record.PinFirst:
				h.first = e.Detail
				if h.last == "" {
					h.last = e.Detail
				}
			case record.PinLast:
				h.last = e.Detail
			case record.PinUpdate:
				if e.Detail != update {
					t.Errorf("after %d: update attempt %q, want %q", i, e.Detail, update)
				}
			}
			have[e.Reason] = h
		}
		for reason, w := range want {
			if have[reason] != w {
				t.Errorf("after %d: %s: %+v, want %+v", i, reason, have[reason], w)
			}
		}
		if f.Missing > 0 || len(f.Damaged) > 0 {
			t.Errorf("after %d: %d missing, damaged %v", i, f.Missing, f.Damaged)
		}
	}
}

// TestAFirstIsOfItsEpisode: an old failure is not the first cause of a new one months later.
func TestAFirstIsOfItsEpisode(t *testing.T) {
	disk, c := durabletest.New(false), newClock()
	r := recorder.Open(c.config(disk, durabletest.New(false)))
	trouble := func(detail string) {
		t.Helper()
		if err := r.Write(diag.RecordEntry{Reason: diag.RecDNSFailed, About: "heartbeat", Decision: "retry", Attempt: 1,
			CeilingMS: 500, Detail: detail}); err != nil {
			t.Fatal(err)
		}
	}
	first := func() string {
		for _, e := range on(t, disk).Pinned {
			if e.Reason == diag.RecDNSFailed && e.Pin == record.PinFirst {
				return e.Detail
			}
		}
		return ""
	}
	trouble("spring")
	c.now = c.now.Add(2 * time.Hour)
	trouble("still spring: nobody has heard of the platform meanwhile")
	if first() != "spring" {
		t.Errorf("first %q", first())
	}
	if err := r.Write(diag.RecordEntry{Reason: diag.RecProcessAlive, About: "heartbeat",
		Decision: record.DecisionContact}); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(time.Minute)
	trouble("a flapping platform")
	if first() != "spring" {
		t.Errorf("first %q", first())
	}
	c.now = c.now.Add(time.Minute)
	if err := r.Write(diag.RecordEntry{Reason: diag.RecProcessAlive, About: "heartbeat",
		Decision: record.DecisionContact}); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(2 * time.Hour)
	trouble("autumn")
	if first() != "autumn" {
		t.Errorf("first %q", first())
	}
}

// TestAHealthyDay: a healthy day costs a slot a minute, and the last contact on the disk is not older than that.
func TestAHealthyDay(t *testing.T) {
	disk, c := durabletest.New(false), newClock()
	r := recorder.Open(c.config(disk, durabletest.New(false)))
	made := disk.Count(durable.OpSync)
	for range 24 * 60 * 4 {
		if err := r.Write(diag.RecordEntry{Reason: diag.RecProcessAlive, About: "heartbeat",
			Decision: record.DecisionContact}); err != nil {
			t.Fatal(err)
		}
		c.now = c.now.Add(15 * time.Second)
	}
	if n := disk.Count(durable.OpSync) - made; n > 24*60 {
		t.Errorf("%d slots a day", n)
	}
	f := on(t, disk)
	if len(f.Entries) != 0 || len(f.Pinned) != 1 || c.now.Sub(f.Pinned[0].Last.Time) > 75*time.Second ||
		f.Pinned[0].Count < 5000 {
		t.Errorf("%+v", f.Pinned)
	}
}

// TestACrashLoopIsCounted: an agent that is restarted repeatedly takes two slots, not two hundred.
func TestACrashLoopIsCounted(t *testing.T) {
	disk, memory, c := durabletest.New(false), durabletest.New(false), newClock()
	for range 300 {
		r := recorder.Open(c.config(disk, memory))
		for _, e := range []diag.RecordEntry{
			{Reason: diag.RecProcessAlive, About: "agent", Decision: "start"},
			{Reason: diag.RecAPIUnreachable, About: "heartbeat", Decision: "retry", Attempt: 1, CeilingMS: 500},
		} {
			if err := r.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		c.now = c.now.Add(2 * time.Second) // killed: nothing is closed
	}
	f := on(t, disk)
	if len(f.Entries) != 4 || f.Entries[2].Count+f.Entries[3].Count < 500 {
		t.Errorf("%+v", f.Entries)
	}
}

// BenchmarkWrite measures a decision without the disk: encode, sum, two copies in memory.
func BenchmarkWrite(b *testing.B) {
	disk, c := durabletest.New(false), newClock()
	r := recorder.Open(c.config(disk, durabletest.New(false)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := r.Write(diag.RecordEntry{Reason: diag.RecTaskClaimFailed, About: "task", Decision: "refuse",
			TaskID: fmt.Sprint("t", i)}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWriteHere measures a whole write to the file system of the temporary folder, including syncs.
func BenchmarkWriteHere(b *testing.B) {
	r := recorder.Open(recorder.Config{Dir: b.TempDir(), Mirror: b.TempDir(), Boot: "boot-1"})
	defer r.Close()
	for i := 0; b.Loop(); i++ {
		if err := r.Write(diag.RecordEntry{Reason: diag.RecTaskClaimFailed, About: "task", Decision: "refuse",
			TaskID: fmt.Sprint("t", i)}); err != nil {
			b.Fatal(err)
		}
	}
}
