package recorder_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// clock is a time that tests set.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

// longID makes every entry longer than a sector, so that each can be torn.
func longID() string { return strings.Repeat("node-1-", 100) }

func (c *clock) config(disk, mirror *durabletest.Disk) recorder.Config {
	epoch := time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)
	return recorder.Config{Dir: "/var/lib/gpuaas/diag", Mirror: "/run/gpuaas/diag", Boot: "boot-1", NodeID: longID(),
		Agent: "v1", FS: both{disk, mirror}, Now: func() time.Time { return c.now }, Mono: func() int64 {
			return int64(c.now.Sub(epoch))
		}}
}

// both is a machine with a disk at /var and memory at /run.
type both struct{ disk, memory *durabletest.Disk }

func (b both) of(path string) *durabletest.Disk {
	if strings.HasPrefix(path, "/run") {
		return b.memory
	}
	return b.disk
}
func (b both) Open(p string, m fs.FileMode) (durable.File, error)   { return b.of(p).Open(p, m) }
func (b both) OpenRead(p string) (durable.File, error)              { return b.of(p).OpenRead(p) }
func (b both) Create(p string, m fs.FileMode) (durable.File, error) { return b.of(p).Create(p, m) }
func (b both) MakeDir(p string, m fs.FileMode) error                { return b.of(p).MakeDir(p, m) }
func (b both) List(p string) ([]string, error)                      { return b.of(p).List(p) }
func (b both) Rename(from, to string) error                         { return b.of(to).Rename(from, to) }
func (b both) RemoveAll(p string) error                             { return b.of(p).RemoveAll(p) }
func (b both) SyncDir(p string) error                               { return b.of(p).SyncDir(p) }
func (b both) Remove(p string) error                                { return b.of(p).Remove(p) }
func (b both) Kind(p string) (string, error)                        { return b.of(p).Kind(p) }
func (b both) FreeInodes(p string) (int64, error)                   { return b.of(p).FreeInodes(p) }

// on reads the record on a disk.
func on(t testing.TB, d *durabletest.Disk) diag.RecordFacts {
	t.Helper()
	sub, err := d.Files().Sub("var/lib/gpuaas/diag")
	if err != nil {
		t.Fatal(err)
	}
	f, err := record.Read(sub)
	if err != nil {
		return diag.RecordFacts{}
	}
	return f
}

// decision is the identity of a decision.
type decision struct {
	reason                  diag.RecordReason
	about, decision, detail string
}

func knownBy(e diag.RecordEntry) decision {
	t := decision{e.Reason, e.About, e.Decision, e.Detail}
	if e.Attempt > 0 {
		t.detail = "" // words of the last of many
	}
	return t
}

// amounts returns how often the record has each decision, and with which ceiling.
func amounts(f diag.RecordFacts) map[decision][2]int64 {
	m := map[decision][2]int64{}
	for _, list := range [...][]diag.RecordEntry{f.Entries, f.Pinned} {
		for _, e := range list {
			k := knownBy(e)
			if e.Decision == record.DecisionContact { // its count restarts after every entry; its time never goes back
				m[k] = [2]int64{max(m[k][0], e.Last.UnixMilli()), 0}
				continue
			}
			m[k] = [2]int64{max(m[k][0], e.Count, 1), max(m[k][1], e.CeilingMS)}
		}
	}
	return m
}

// script returns decisions that an agent may make: acts that all differ, and retries of a few kinds with growing
// ceilings.
func script(roll *rand.Rand, n int) []diag.RecordEntry {
	var out []diag.RecordEntry
	reasons := []diag.RecordReason{diag.RecAPIUnreachable, diag.RecDNSFailed, diag.RecTaskPollFailed}
	for i := range n {
		switch roll.IntN(6) {
		case 0:
			out = append(out, diag.RecordEntry{Reason: diag.RecTaskClaimFailed, About: "task", Decision: "refuse",
				Detail: fmt.Sprint("act ", i)})
		case 1:
			out = append(out, diag.RecordEntry{Reason: diag.RecProcessAlive, About: "heartbeat",
				Decision: record.DecisionContact})
		default:
			reason := reasons[roll.IntN(len(reasons))]
			out = append(out, diag.RecordEntry{Reason: reason, About: "heartbeat", Decision: "retry", Failure: diag.TCPRefused,
				Attempt: 1 + i, CeilingMS: int64(500 << min(i/4, 6)), Detail: strings.Repeat("dial ", roll.IntN(300))})
		}
	}
	return out
}

// TestPowerCut cuts the log of a disk's operations after each one. Whatever part of the unsynced data survives:
// every decision whose Write had returned is in the rest, with at least its count and ceiling, and the rest
// contains nothing that was not written. A recorder that is opened on it loses none of it either.
func TestPowerCut(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			roll := rand.New(rand.NewPCG(seed, 1))
			disk, memory, c := durabletest.New(true), durabletest.New(false), newClock()
			r := recorder.Open(c.config(disk, memory))
			opened := disk.Len()
			type promise struct {
				at   int // length of the log when Write had returned
				what map[decision][2]int64
			}
			given := map[decision]bool{{diag.RecProcessAlive, "heartbeat", record.DecisionContact, ""}: true}
			var promises []promise
			for _, e := range script(roll, 45) {
				given[knownBy(e)] = true
				if err := r.Write(e); err != nil {
					t.Fatal(err)
				}
				now := amounts(on(t, disk))
				if e.Decision != record.DecisionContact {
					if have, ok := now[knownBy(e)]; !ok || have[1] < e.CeilingMS {
						t.Fatalf("accepted and not on the disk: %+v, ceiling there %d", e, have[1])
					}
				}
				promises = append(promises, promise{disk.Len(), now})
				c.now = c.now.Add(time.Duration(roll.IntN(25)) * time.Second)
			}
			for n := opened; n <= disk.Len(); n++ {
				cut := disk.Cut(n, roll)
				for _, name := range []string{record.FileRecord, record.FilePinned} {
					if holes := cut.Holes("/var/lib/gpuaas/diag/" + name); holes > 0 {
						t.Fatalf("after %d operations: %s has %d holes", n, name, holes)
					}
				}
				what := amounts(on(t, cut))
				for k := range what {
					if !given[k] {
						t.Fatalf("after %d operations: %+v was never written", n, k)
					}
				}
				var floor map[decision][2]int64
				for _, p := range promises {
					if p.at <= n {
						floor = p.what
					}
				}
				atLeast(t, n, what, floor)
				if n%7 == 0 {
					recorder.Open(c.config(cut, durabletest.New(false))).Close()
					after := amounts(on(t, cut))
					atLeast(t, n, after, what)
				}
			}
		})
	}
}

// atLeast checks that what contains everything in floor.
func atLeast(t *testing.T, n int, what, floor map[decision][2]int64) {
	t.Helper()
	for k, v := range floor {
		if have, ok := what[k]; !ok || have[0] < v[0] || have[1] < v[1] {
			t.Fatalf("after %d operations: of %+v there were count and ceiling %v, and now %v (%v)", n, k, v, have, ok)
		}
	}
}

// TestCreationIsResumed cuts the creation after each operation. A recorder that is opened on the rest completes
// it, with allocated space for every slot, and takes writes.
func TestCreationIsResumed(t *testing.T) {
	roll := rand.New(rand.NewPCG(7, 7))
	disk, c := durabletest.New(true), newClock()
	recorder.Open(c.config(disk, durabletest.New(false))).Close()
	for n := 0; n <= disk.Len(); n += 1 + roll.IntN(9) {
		cut := disk.Cut(n, roll)
		r := recorder.Open(c.config(cut, durabletest.New(false)))
		if err := r.Write(diag.RecordEntry{Reason: diag.RecProcessAlive, About: "agent", Decision: "start"}); err != nil {
			t.Fatalf("after %d operations: %v", n, err)
		}
		r.Close()
		for _, name := range []string{record.FileRecord, record.FilePinned} {
			if holes := cut.Holes("/var/lib/gpuaas/diag/" + name); holes > 0 {
				t.Fatalf("after %d operations: %s has %d holes", n, name, holes)
			}
		}
		if f := on(t, cut); f.Slots != record.Slots+record.PinnedSlots || len(f.Entries) != 1 || len(f.Damaged) > 0 {
			t.Fatalf("after %d operations: %d slots, %d entries, damaged %v", n, f.Slots, len(f.Entries), f.Damaged)
		}
	}
}

// TestAFailedSyncIsNotBelieved: after a failed sync the slot is written again through a new descriptor. If that
// fails as well, the record reports that it is degraded, keeps everything in the mirror, and writes it to the disk
// once that recovers.
func TestAFailedSyncIsNotBelieved(t *testing.T) {
	disk, memory, c := durabletest.New(false), durabletest.New(false), newClock()
	r := recorder.Open(c.config(disk, memory))
	failing := 0
	disk.Fault = func(kind, _ string) error {
		if failing > 0 && kind == durable.OpSync {
			failing--
			return syscall.EIO
		}
		return nil
	}
	act := func(detail string) error {
		return r.Write(diag.RecordEntry{Reason: diag.RecTaskClaimFailed, About: "task", Decision: "refuse", Detail: detail})
	}
	failing = 1
	if err := act("one"); err != nil || r.Summary()["state"] != "ok" {
		t.Fatalf("one failure: %v %v", err, r.Summary())
	}
	failing = 1000
	if err := act("two"); err == nil || r.Summary()["state"] != "degraded" ||
		!strings.Contains(r.Summary()["why"], "input/output error") {
		t.Fatalf("two failures: %v %v", err, r.Summary())
	}
	if err := act("three"); err == nil {
		t.Fatal("accepted by a disk that fails")
	}
	failing = 0
	c.now = c.now.Add(time.Hour)
	if err := act("four"); err != nil || r.Summary()["state"] != "ok" {
		t.Fatalf("recovered: %v %v", err, r.Summary())
	}
	var details []string
	f := on(t, disk)
	said := map[string]int{}
	for _, e := range f.Entries {
		if e.Reason == diag.RecTaskClaimFailed {
			details = append(details, e.Detail)
		} else {
			said[e.Decision]++
		}
	}
	if fmt.Sprint(details) != "[one two three four]" || said["degraded"] != 1 || said["recovered"] != 2 ||
		f.Degraded != "" {
		t.Errorf("%v, %v, degraded %q", details, said, f.Degraded)
	}
}

// TestNoDisk: a record that cannot be created is reported, kept in the mirror, and created later.
func TestNoDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		inodes int64
		word   diag.Failure
	}{
		"full":      {syscall.ENOSPC, 0, diag.DiskFull},
		"inodes":    {syscall.ENOSPC, -1, diag.DiskInodes},
		"read-only": {syscall.EROFS, 0, diag.DiskReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			disk, memory, c := durabletest.New(false), durabletest.New(false), newClock()
			disk.Fault, disk.Inodes = func(string, string) error { return tc.err }, tc.inodes
			r := recorder.Open(c.config(disk, memory))
			s := r.Summary()
			if s["state"] != "absent" || !strings.HasPrefix(s["why"], string(tc.word)+": ") || s["reserve"] == "" {
				t.Fatalf("summary %v", s)
			}
			if err := r.Write(diag.RecordEntry{Reason: diag.RecProcessAlive, About: "agent", Decision: "start"}); err == nil {
				t.Fatal("accepted without a disk")
			}
			sub, _ := memory.Files().Sub("run/gpuaas/diag")
			m, err := record.Read(sub)
			if err != nil || len(m.Entries) != 2 || m.Degraded == "" {
				t.Fatalf("mirror: %v %+v", err, m)
			}
			disk.Fault, disk.Inodes = nil, 0
			c.now = c.now.Add(time.Minute)
			if err := r.Write(diag.RecordEntry{Reason: diag.RecShutdown, About: "agent", Decision: "stop"}); err != nil {
				t.Fatal(err)
			}
			if f := on(t, disk); len(f.Entries) != 4 || f.Missing != 0 || f.Degraded != "" || r.Summary()["state"] != "ok" {
				t.Errorf("%+v, summary %v", f.Entries, r.Summary())
			}
		})
	}
}

// TestFilesThatAreTaken: if the open files are removed, the recorder notices that its writes reach no reader, and
// creates them again.
func TestFilesThatAreTaken(t *testing.T) {
	disk, memory, c := durabletest.New(false), durabletest.New(false), newClock()
	r := recorder.Open(c.config(disk, memory))
	before := diag.RecordEntry{Reason: diag.RecProcessAlive, About: "agent", Decision: "start"}
	after := diag.RecordEntry{Reason: diag.RecShutdown, About: "agent", Decision: "stop"}
	if err := r.Write(before); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{record.FileRecord, record.FilePinned, record.DirReserve + "/3"} {
		if err := disk.Remove("/var/lib/gpuaas/diag/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Write(after); err != nil {
		t.Fatal(err)
	}
	if s := r.Summary(); s["state"] != "ok" || s["reserve"] != "" {
		t.Errorf("summary %v", s)
	}
	if a := amounts(on(t, disk)); a[knownBy(before)][0] == 0 || a[knownBy(after)][0] == 0 {
		t.Errorf("left: %v", a)
	}
}

// TestADiskThatIsReadOnlyFromTheStart: on a disk that is read-only after an earlier error, numbering continues
// from the record's content, and when it takes writes again nothing of either is lost.
func TestADiskThatIsReadOnlyFromTheStart(t *testing.T) {
	disk, memory, c := durabletest.New(false), durabletest.New(false), newClock()
	acts := func(r *recorder.Recorder, from, to int) (err error) {
		for i := from; i < to; i++ {
			c.now = c.now.Add(time.Second)
			err = r.Write(diag.RecordEntry{Reason: diag.RecTaskClaimFailed, About: "task", Decision: "refuse",
				Detail: fmt.Sprint("act ", i)})
		}
		return err
	}
	r := recorder.Open(c.config(disk, memory))
	if err := acts(r, 0, 20); err != nil {
		t.Fatal(err)
	}
	r.Close()
	memory = durabletest.New(false)
	cfg := c.config(disk, memory)
	cfg.Boot = "boot-2"
	disk.Fault = func(string, string) error { return syscall.EROFS }
	r = recorder.Open(cfg)
	if err := acts(r, 20, 30); !errors.Is(err, recorder.ErrNotSynced) || r.Summary()["state"] != "degraded" ||
		!strings.HasPrefix(r.Summary()["why"], string(diag.DiskReadOnly)) {
		t.Fatalf("%v %v", err, r.Summary())
	}
	whole := func(when string, f diag.RecordFacts) {
		t.Helper()
		first := false
		for _, e := range f.Pinned {
			first = first || (e.Pin == record.PinFirst && e.Detail == "act 0")
		}
		decision := 0
		for _, e := range f.Entries {
			if e.Reason == diag.RecTaskClaimFailed && e.Detail == fmt.Sprint("act ", decision) {
				decision++
			}
		}
		if decision < 30 || !first || f.Missing > 0 || len(f.Damaged) > 0 {
			t.Errorf("%s %d acts are reported, the first is pinned: %v; %d missing", when, decision, first, f.Missing)
		}
	}
	d, _ := disk.Files().Sub("var/lib/gpuaas/diag")
	m, _ := memory.Files().Sub("run/gpuaas/diag")
	f, err := record.ReadBoth(d, m)
	if err != nil || f.Degraded == "" {
		t.Errorf("%v, degraded %q", err, f.Degraded)
	}
	whole("meanwhile", f)
	disk.Fault = nil
	c.now = c.now.Add(time.Hour)
	if err := acts(r, 30, 31); err != nil {
		t.Fatal(err)
	}
	whole("on the disk", on(t, disk))
}
