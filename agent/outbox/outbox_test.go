package outbox

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// platform stores events like the reference platform.
type platform struct {
	events map[uint64]string
	mark   uint64
}

func (p *platform) take(batch []wire.Event) uint64 {
	if len(batch) > 0 {
		p.mark = max(p.mark, batch[0].Seq-1)
	}
	for _, e := range batch {
		if _, ok := p.events[e.Seq]; !ok {
			p.events[e.Seq] = e.Kind
		}
	}
	for p.events[p.mark+1] != "" {
		p.mark++
	}
	return p.mark
}

func (p *platform) has(kind string) bool {
	for _, k := range p.events {
		if k == kind {
			return true
		}
	}
	return false
}

func newPlatform() *platform { return &platform{events: map[uint64]string{}} }

// talk exchanges one heartbeat and the events after it.
func talk(t interface{ Fatal(...any) }, o *Outbox, p *platform) {
	if err := o.Replay(p.mark + 1); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		batch := o.Batch()
		if len(batch) == 0 {
			return
		}
		if err := o.Acked(p.take(batch)); err != nil {
			t.Fatal(err)
		}
		if n > 100 {
			t.Fatal("the same batch again and again")
		}
	}
}

func inMemory() durable.Dir {
	d, _ := durabletest.NewDir()
	return d
}

func open(t interface{ Fatal(...any) }, d durable.Dir) *Outbox {
	o, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func add(t interface{ Fatal(...any) }, o *Outbox, kind string) {
	if err := o.Add(wire.Event{Kind: kind}); err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsSentBeforeThePlatformHasSpoken(t *testing.T) {
	o := open(t, inMemory())
	add(t, o, "a")
	if b := o.Batch(); b != nil {
		t.Fatalf("batch %v", b)
	}
	talk(t, o, newPlatform())
	if o.head.Acked != 1 {
		t.Errorf("acked %d", o.head.Acked)
	}
}

func TestALostPlatformGetsEventsBack(t *testing.T) {
	d := inMemory()
	o, p := open(t, d), newPlatform()
	for i := range 5 {
		add(t, o, fmt.Sprint("e", i))
	}
	talk(t, o, p)
	o, p = open(t, d), newPlatform()
	talk(t, o, p)
	if len(p.events) != 5 || p.mark != 5 {
		t.Errorf("%d events, watermark %d", len(p.events), p.mark)
	}
}

func TestAPlatformThatIsAheadLosesNothing(t *testing.T) {
	p := newPlatform()
	o := open(t, inMemory()) // the disk of this life
	for i := range 4 {
		p.events[uint64(i+1)] = fmt.Sprint("former ", i)
	}
	p.mark = 4
	for _, kind := range []string{"a", "b"} { // before the first heartbeat: numbers 1 and 2
		add(t, o, kind)
	}
	talk(t, o, p)
	add(t, o, "c")
	talk(t, o, p)
	for _, kind := range []string{"former 0", "former 3", "a", "b", "c"} {
		if !p.has(kind) {
			t.Errorf("%q is lost: %v", kind, p.events)
		}
	}
	if p.mark != 7 || o.Next() != 8 {
		t.Errorf("watermark %d, next %d", p.mark, o.Next())
	}
}

func TestBounds(t *testing.T) {
	d := inMemory()
	o, p := open(t, d), newPlatform()
	for i := range MaxUnsent + 10 {
		add(t, o, fmt.Sprint("e", i))
	}
	talk(t, o, p)
	if p.has("e9") || !p.has("e10") || p.mark != MaxUnsent+10 {
		t.Errorf("the oldest ten are not gone, or more: watermark %d", p.mark)
	}
	add(t, o, "last")
	talk(t, o, p)
	if n := len(o.events); n > KeepSent+1 {
		t.Errorf("%d events are kept", n)
	}
	lost := newPlatform()
	talk(t, open(t, d), lost)
	if len(lost.events) < KeepSent || !lost.has("last") {
		t.Errorf("a lost platform gets %d events", len(lost.events))
	}
	big := open(t, inMemory())
	if err := big.Add(wire.Event{Detail: []byte(strings.Repeat("x", MaxDetail+1))}); err != nil ||
		len(big.events[0].Detail) > 100 {
		t.Errorf("a detail of any length is kept: %v", err)
	}
}

func TestAFullDisk(t *testing.T) {
	disk := durabletest.New(false)
	d := durable.Dir{FS: disk, Root: "/state"}
	o, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	add(t, o, "before")
	disk.Fault = func(string, string) error { return syscall.ENOSPC }
	if err := o.Add(wire.Event{Kind: "full"}); err == nil || !o.dirty {
		t.Error("the full disk is not reported")
	}
	disk.Fault = nil
	add(t, o, "after")
	if o.dirty {
		t.Error("it stays degraded")
	}
	p := newPlatform()
	talk(t, open(t, d), p)
	for _, kind := range []string{"before", "full", "after"} {
		if !p.has(kind) {
			t.Errorf("%q is lost", kind)
		}
	}
}

// TestNoEventIsLost adds events, talks to the platform, crashes at any write, and loses the platform's state; in
// the end every event that had to be kept is on the platform.
func TestNoEventIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, killer := durabletest.NewDir()
		p := newPlatform()
		o := open(t, d)
		kept := map[string]bool{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			kind := fmt.Sprint("e", i)
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				add(t, o, kind)
				kept[kind] = true
			case 2:
				talk(t, o, p)
			case 3: // the process dies in the middle of a write
				killer.At = killer.Changes + rapid.IntRange(1, 8).Draw(t, "change")
				func() {
					defer func() { _ = recover() }()
					_ = o.Add(wire.Event{Kind: kind})
				}()
				killer.At = 0
				o = open(t, d)
			case 4:
				o = open(t, d)
			case 5:
				p = newPlatform()
			}
		}
		talk(t, o, p)
		talk(t, open(t, d), p)
		for kind := range kept {
			if !p.has(kind) {
				t.Fatalf("%s is lost: %v", kind, p.events)
			}
		}
	})
}

// TestANumberThatNobodyReaches: one invalid Replay-From does not exhaust the numbers.
func TestANumberThatNobodyReaches(t *testing.T) {
	o, err := Open(inMemory())
	if err != nil {
		t.Fatal(err)
	}
	p := newPlatform()
	talk(t, o, p)
	for _, from := range []uint64{math.MaxUint64, math.MaxInt64} {
		if err := o.Replay(from); err != nil {
			t.Fatal(err)
		}
		if err := o.Add(wire.Event{Kind: fmt.Sprint(from)}); err != nil {
			t.Fatal(err)
		}
		talk(t, o, p)
		if !p.has(fmt.Sprint(from)) || o.Next() > 10 {
			t.Errorf("from %d: next is %d, the platform has %v", from, o.Next(), p.events)
		}
	}
}

// TestOneWrongReplayFromLeavesNumbers: whatever number a platform asks for once, the next events reach a platform that
// takes numbers up to wire.MaxSeq, also when an earlier build has believed more.
func TestOneWrongReplayFromLeavesNumbers(t *testing.T) {
	for _, wrong := range []uint64{wire.MaxSeq / 2, wire.MaxSeq, math.MaxInt64 / 2, math.MaxInt64, math.MaxUint64} {
		d, _ := durabletest.NewDir()
		o, err := Open(d)
		if err != nil {
			t.Fatal(err)
		}
		p := newPlatform()
		talk(t, o, p)
		err = errors.Join(o.Add(wire.Event{Kind: "first"}), o.Replay(wrong), o.Add(wire.Event{Kind: "second"}))
		if err != nil {
			t.Fatal(err)
		}
		if n := o.Next(); n > wire.MaxSeq-wire.MaxJump {
			t.Errorf("%d: the next number is %d", wrong, n)
		}
	}
	d, _ := durabletest.NewDir()
	head := fmt.Sprintf(`{"head":{"next":%d,"acked":%d,"anchored":true}}`, uint64(1)<<62+1, uint64(1)<<62-1)
	event := fmt.Sprintf(`{"event":{"seq":%d,"at":"2026-01-01T00:00:00Z","kind":"kept"}}`, uint64(1)<<62)
	if err := d.Write(file, []byte(head+"\n"+event+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := Open(d)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlatform()
	p.mark = 7
	talk(t, o, p)
	if !p.has("kept") || p.mark != 8 {
		t.Errorf("the platform has %v, watermark %d", p.events, p.mark)
	}
}
