// Package outbox stores a node's numbered events until the platform has stored them durably.
//
// An event is on the disk before Add returns. It is sent until the platform's durable watermark passes it, and is
// kept for a while afterwards: a platform that lost its state, or was restored from a backup, requests it again
// with a lower Replay-From. A sequence number is never reused, not even after this node's own disk was restored:
// in that case the platform asks for a number that this outbox has not assigned yet, and undelivered events are
// renumbered from there.
//
// Of delivered events the newest KeepSent are kept, of undelivered ones the newest MaxUnsent; older events are
// dropped, which shows as a gap before a batch's first number. The package does no network I/O; package agent
// sends.
package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/durable"
)

// What is kept, and what is sent at once.
const (
	KeepSent  = 256
	MaxUnsent = 1024
	MaxBatch  = wire.MaxEvents
	MaxDetail = wire.MaxEventDetail // bytes of one event's detail
)

// maxSeq is the highest number that a platform may ask for. No node reaches it, and a platform that asks for it by
// mistake leaves as many numbers above it.
const maxSeq = wire.MaxSeq / 2

// compactAt is how many obsolete lines the file may have before it is rewritten.
const compactAt = 256

const file = "outbox"

// Outbox is the events of one node instance. It is safe for concurrent use.
type Outbox struct {
	disk durable.Dir

	mu     sync.Mutex
	head   head         // guarded by mu, like all below
	events []wire.Event // ascending
	lines  int          // in the file
	fresh  uint64       // numbers from here on were assigned but not reported yet
	dirty  bool         // the file lacks something: rewrite it
}

// head is the file's first line; each later line is an event or an updated head.
type head struct {
	Next     uint64 `json:"next"`     // the next sequence number
	Acked    uint64 `json:"acked"`    // the platform has everything up to this number
	Anchored bool   `json:"anchored"` // the platform has reported its watermark at least once
}

// line is one line of the file: exactly one of its fields is set.
type line struct {
	Head  *head       `json:"head,omitempty"`
	Event *wire.Event `json:"event,omitempty"`
}

// Open reads the outbox. Its error means that the file cannot be read or written; the outbox then works in memory.
func Open(d durable.Dir) (*Outbox, error) {
	o := &Outbox{disk: d, head: head{Next: 1}, fresh: 1}
	text, err := d.Read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o, nil
	case err != nil:
		o.dirty = true
		return o, fmt.Errorf("read the outbox: %w", err)
	}
	for raw := range bytes.Lines(text) {
		var l line
		if json.Unmarshal(raw, &l) != nil {
			o.dirty = true // an incomplete last line: its Add never returned
			continue
		}
		o.lines++
		if l.Head != nil {
			o.head = *l.Head
		}
		if l.Event != nil {
			o.put(*l.Event)
		}
	}
	o.head.Next = max(o.head.Next, o.head.Acked+1)
	if n := len(o.events); n > 0 {
		o.head.Next = max(o.head.Next, o.events[n-1].Seq+1)
	}
	if o.head.Next > wire.MaxSeq { // no platform takes these numbers: the next Replay gives others
		o.events, o.head = o.unsent(), head{Next: 1}
		o.renumber(1)
	}
	if o.head.Anchored {
		o.fresh = o.head.Next
	}
	o.dirty = o.dirty || (len(text) > 0 && text[len(text)-1] != '\n')
	return o, nil
}

// put adds an event from the file; an event that an interrupted renumbering left twice is added once.
func (o *Outbox) put(e wire.Event) {
	if n := len(o.events); n > 0 && e.Seq <= o.events[n-1].Seq {
		o.dirty = true
		return
	}
	o.events = append(o.events, e)
}

// Add numbers the event and stores it. If Add returns an error, the event is in memory only.
func (o *Outbox) Add(e wire.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(e.Detail) > MaxDetail {
		e.Detail, _ = json.Marshal(map[string]int{"detail_too_long": len(e.Detail)}) // cannot fail
	}
	e.Kind, e.CorrelationID = e.Kind[:min(len(e.Kind), wire.MaxEventKind)],
		e.CorrelationID[:min(len(e.CorrelationID), wire.MaxEventKind)]
	e.Seq = o.head.Next
	o.head.Next++
	o.events = append(o.events, e)
	if unsent := len(o.unsent()); unsent > MaxUnsent {
		first := len(o.events) - unsent
		o.events, o.dirty = slices.Delete(o.events, first, first+unsent-MaxUnsent), true
	}
	return o.save(line{Event: &e})
}

// Has reports whether a stored event has this text in its detail.
func (o *Outbox) Has(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.events, func(e wire.Event) bool { return bytes.Contains(e.Detail, []byte(text)) })
}

// Unsent counts the events of a kind with the prefix that the platform has not confirmed.
func (o *Outbox) Unsent(kindPrefix string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.unsent() {
		if strings.HasPrefix(e.Kind, kindPrefix) {
			n++
		}
	}
	return n
}

// Next is the next sequence number.
func (o *Outbox) Next() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.head.Next
}

// Replay handles the number that the platform wants next, from a heartbeat's response.
func (o *Outbox) Replay(from uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if from == 0 || from > maxSeq {
		return nil
	}
	was := o.head
	if from > min(o.fresh, o.head.Next) {
		o.renumber(from)
	}
	o.head.Acked, o.head.Anchored, o.fresh = from-1, true, math.MaxUint64
	if was == o.head && !o.dirty {
		return nil
	}
	return o.save(line{Head: &o.head})
}

// renumber moves unreported events to numbers from from on: the node's disk was lost or restored, and it has used
// their old numbers for other events before.
func (o *Outbox) renumber(from uint64) {
	for i := range o.events {
		if o.events[i].Seq >= min(o.fresh, o.head.Acked+1) {
			o.events[i].Seq = from
			from++
		}
	}
	o.head.Next, o.dirty = max(o.head.Next, from), true
}

// Batch returns the next events to send, oldest first and without a gap. Events between the platform's watermark
// and the first of them are lost. Nothing is sent before the platform has reported its watermark.
func (o *Outbox) Batch() []wire.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.head.Anchored {
		return nil
	}
	unsent := o.unsent()
	n := 0
	for n < min(len(unsent), MaxBatch) && unsent[n].Seq == unsent[0].Seq+uint64(n) {
		n++
	}
	return slices.Clone(unsent[:n])
}

// Acked handles the watermark in the response to a batch.
func (o *Outbox) Acked(watermark uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if watermark <= o.head.Acked || watermark >= o.head.Next {
		return nil
	}
	o.head.Acked = watermark
	return o.save(line{Head: &o.head})
}

// unsent returns the events that the platform has not confirmed.
func (o *Outbox) unsent() []wire.Event {
	i, _ := slices.BinarySearchFunc(o.events, o.head.Acked+1, func(e wire.Event, seq uint64) int {
		switch {
		case e.Seq < seq:
			return -1
		case e.Seq > seq:
			return 1
		}
		return 0
	})
	return o.events[i:]
}

// save appends l, or rewrites the whole file if it is incomplete or too long. The new file replaces the old one in
// one step, so that no event is lost.
func (o *Outbox) save(l line) error {
	if sent := len(o.events) - len(o.unsent()); sent > KeepSent {
		o.events = slices.Delete(o.events, 0, sent-KeepSent)
	}
	if o.lines == 0 || o.dirty || o.lines > len(o.events)+compactAt {
		return o.rewrite()
	}
	text, err := json.Marshal(l)
	if err == nil {
		err = o.disk.Append(file, append(text, '\n'))
	}
	if err != nil {
		o.dirty = true
		return fmt.Errorf("keep an event: %w", err)
	}
	o.lines++
	return nil
}

func (o *Outbox) rewrite() error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	err := enc.Encode(line{Head: &o.head})
	for i := range o.events {
		err = errors.Join(err, enc.Encode(line{Event: &o.events[i]}))
	}
	if err == nil {
		err = o.disk.Write(file, b.Bytes(), 0o600)
	}
	if err != nil {
		o.dirty = true
		return fmt.Errorf("keep the events: %w", err)
	}
	o.lines, o.dirty = len(o.events)+1, false
	return nil
}
