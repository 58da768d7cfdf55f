package drill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/node"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// journalSize is enough for the drills of these tests.
const journalSize = 64 << 10

// box is a machine in memory that replies as gpuaas-fault does: the real keeper writes its journal, a watchdog
// follows the journal, and each command reads it again, like a process.
type box struct {
	w    *world
	id   string
	line line
	// the drill's, in the bubble: not a mutex, since a test's virtual time must continue while it is held
	lock chan struct{}

	mu sync.Mutex // guards what follows
	flaws
	text    map[string]string // what is at each place
	before  map[string]string // the fingerprint
	disk    *disk             // the journal's; nil: no drill yet
	renewed int64
	watched bool
	asked   []string // commands, as they came
	armed   bool     // ever
}

// flaws are ways in which a machine may misbehave.
type flaws struct {
	refuses map[string]*step.Refusal // by command
	dies    bool                     // the arming process dies once there is an empty journal
	takes   map[string]time.Duration // by command
	blocked int                      // this many changes fail
	noop    bool                     // changes are reported as made
	unseen  string                   // why the steps' own checks fail
	stuck   int                      // so many undos fail
	leaky   bool                     // undo leaves something behind
	lying   bool                     // undo is reported as done, and the comparison is fooled as well
	mends   time.Duration            // an operator reverts everything manually, this long after the injection
	edits   time.Duration            // an operator changes it
	hidden  bool                     // an operator's change is not in any fingerprint
	strange string                   // something else differs afterwards
	expires time.Duration            // the watchdog is ordered to stop, this long after arming
}

// disk is a journal's file.
type disk struct {
	mu sync.Mutex
	b  []byte
}

func (d *disk) ReadAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return copy(p, d.b[off:]), nil
}

func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return copy(d.b[off:], p), nil
}

func (d *disk) Sync() error { return nil }

func newBox(w *world, id string) *box {
	return &box{w: w, id: id, text: map[string]string{},
		flaws: flaws{refuses: map[string]*step.Refusal{}, takes: map[string]time.Duration{}}}
}

// with reads and writes the fields that mu guards.
func (b *box) with(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// locked runs f with the drill's lock.
func (b *box) locked(f func() error) error {
	b.lock <- struct{}{}
	defer func() { <-b.lock }()
	return f()
}

// process is one process that works on the drill.
type process struct {
	*box
	journal *node.Journal
}

func (b *box) open() (*process, error) {
	b.mu.Lock()
	d := b.disk
	b.mu.Unlock()
	if d == nil {
		return nil, step.Refuse(step.RefusedNone, "there is no drill %s on this machine", runID)
	}
	j, err := node.OpenJournal(d, journalSize)
	return &process{b, j}, err
}

// Renewed implements node.Lease.
func (b *box) Renewed() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.renewed
}

func (b *box) now() int64 { return time.Since(b.w.booted).Nanoseconds() + 1 }

func (p *process) keeper(by string) *node.Keeper {
	k := &node.Keeper{
		Journal: p.journal, Machine: places{p.box}, Lease: p.box, By: by, PID: 7,
		Clock: node.Clock{Boot: "b1", Now: p.now, Wall: time.Now},
	}
	if by != step.ByWatchdog {
		k.Guarded = p.guarded
	}
	return k
}

func (b *box) guarded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watched
}

func (p *process) write(by string, e step.Entry) error {
	e.At, e.Boot, e.BootNS, e.By, e.PID = time.Now().UTC(), "b1", p.now(), by, 7
	return p.journal.Append(e)
}

// command executes one command, from its arguments to its reply.
func (b *box) command(in []byte, args []string) (r step.Reply) {
	began, name := time.Now(), args[0]
	r.Schema = step.ReplySchema
	b.mu.Lock()
	b.asked = append(b.asked, name)
	refused, takes := b.refuses[name], b.takes[name]
	b.mu.Unlock()
	err := error(nil)
	time.Sleep(takes)
	if refused != nil {
		err = refused
	} else if name == "arm" {
		err = b.arm(in)
	}
	p, openErr := b.open()
	if err == nil {
		err = openErr
	}
	if err == nil && name != "arm" {
		err = p.carry(args, &r)
	}
	if openErr == nil {
		_ = p.journal.Refresh()
		if r.Status == nil {
			st := p.status(false)
			r.Status = &st
		}
	}
	var no *step.Refusal
	if errors.As(err, &no) {
		r.Refused = no
	} else if err != nil {
		r.Error = err.Error()
	}
	r.TookUS = time.Since(began).Microseconds()
	return r
}

func (p *process) carry(args []string, r *step.Reply) error {
	flag := func(name string) string {
		if i := slices.Index(args, "--"+name); i > 0 {
			return args[i+1]
		}
		return ""
	}
	if run := flag("run"); run != runID {
		return step.Refuse(step.RefusedNone, "there is no drill %s on this machine", run)
	}
	switch args[0] {
	case "status":
		return nil
	case "renew":
		if p.journal.Ledger.Phase() != step.PhaseArmed {
			return p.not("it cannot be renewed")
		}
		p.with(func() { p.renewed = p.now() })
		return nil
	case "do":
		return p.do(flag("step"))
	case "revert":
		return p.locked(func() error {
			return errors.Join(p.journal.Refresh(), p.keeper(step.ByCLI).Revert(context.Background(), flag("why")))
		})
	case "verify":
		return p.verify(r)
	case "close":
		return p.close(r, slices.Contains(args, "--force"))
	}
	return fmt.Errorf("no command %s", args[0])
}

func (p *process) not(text string) error {
	return step.Refuse(step.RefusedState, "%s: drill %s is %s (%s)", text, runID, p.journal.Ledger.Phase(),
		p.journal.Ledger.Why)
}

func (p *process) status(withJournal bool) step.Status {
	l := p.journal.Ledger
	st := l.Status()
	if p.guarded() {
		st.Watchdog = l.Guard
	}
	if l.Phase() == step.PhaseArmed {
		ttl, lease := l.Clocks(p.now(), p.Renewed())
		ttlLeft, leaseLeft := step.MillisOf(max(0, ttl)), step.MillisOf(max(0, lease))
		st.TTLLeft, st.LeaseLeft = &ttlLeft, &leaseLeft
	}
	if withJournal {
		st.Journal = p.journal.Entries
	}
	return st
}

// arm arms the machine.
func (b *box) arm(in []byte) error {
	d, err := step.Decode(bytes.NewReader(in))
	if err != nil {
		return step.Refuse(step.RefusedDrill, "%v", err)
	}
	if skew := time.Since(d.At).Abs(); skew > 2*time.Minute { // as a real one does
		return step.Refuse(step.RefusedClock, "the drill says that it was sent %s ago", skew)
	}
	b.mu.Lock()
	if b.disk != nil {
		b.mu.Unlock()
		return step.Refuse(step.RefusedLocked, "drill %s is on this machine", d.Run)
	}
	b.disk, b.before, b.armed, b.renewed = &disk{b: make([]byte, journalSize)}, maps.Clone(b.text), !b.dies, b.now()
	b.mu.Unlock()
	if b.dies {
		return errors.New("killed")
	}
	p, err := b.open()
	if err == nil {
		err = p.keeper(step.ByCLI).Plan(context.Background(), d)
	}
	if err == nil {
		err = p.write(step.ByCLI, step.Entry{Event: step.EventArmed})
	}
	if err != nil {
		return err
	}
	p, err = b.open()
	if err == nil {
		err = p.keeper(step.ByWatchdog).Start(context.Background())
	}
	b.with(func() { b.watched = true })
	b.w.busy.Go(p.watch)
	return err
}

// watch is the watchdog.
func (p *process) watch() {
	k, armed := p.keeper(step.ByWatchdog), time.Now()
	for over := false; !over; time.Sleep(47100 * time.Microsecond) {
		_ = p.locked(func() error {
			if err := p.journal.Refresh(); err != nil {
				return err
			}
			if p.expires > 0 && time.Since(armed) > p.expires && p.journal.Ledger.Why == "" {
				return k.Revert(context.Background(), step.WhyStopped)
			}
			var err error
			over, err = k.Tick(context.Background())
			return err
		})
		p.meddle()
	}
	p.with(func() { p.watched = false })
}

// meddle makes the changes of other people on the machine.
func (b *box) meddle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for place, text := range b.text {
		since := time.Since(b.w.since(place))
		switch {
		case !strings.HasPrefix(text, injected):
		case b.mends > 0 && since > b.mends:
			b.text[place] = b.before[place]
			b.w.mark(place, false)
		case b.edits > 0 && since > b.edits:
			b.text[place] = "by hand"
			b.w.mark(place, false)
		}
	}
}

// do requests a step from the watchdog, and waits for it.
func (p *process) do(id string) error {
	err := p.locked(func() error {
		if err := p.journal.Refresh(); err != nil {
			return err
		}
		l := &p.journal.Ledger
		if l.Phase() != step.PhaseArmed || !p.guarded() {
			return p.not("nothing is injected")
		}
		i := slices.IndexFunc(l.Steps, func(s step.StepLedger) bool { return s.Step.ID == id })
		if i < 0 {
			return step.Refuse(step.RefusedDrill, "no step %q", id)
		}
		if l.Steps[i].Wanted {
			return nil
		}
		return p.write(step.ByCLI, step.Entry{Event: step.EventWanted, Step: id})
	})
	for err == nil {
		if err = p.journal.Refresh(); err != nil {
			return err
		}
		l := &p.journal.Ledger
		s := l.Steps[slices.IndexFunc(l.Steps, func(s step.StepLedger) bool { return s.Step.ID == id })]
		if s.State() == step.Done || s.State() == step.Verified {
			break
		}
		if l.Why != "" {
			return p.not("step " + id + " was not made")
		}
		time.Sleep(19300 * time.Microsecond)
	}
	if err != nil {
		return err
	}
	return p.locked(func() error {
		e := step.Entry{Event: step.EventVerify, Step: id, State: step.Verified}
		if p.unseen != "" {
			e.State, e.Text = step.Done, p.unseen
		}
		if err := errors.Join(p.journal.Refresh(), p.write(step.ByCLI, e)); err != nil || p.unseen == "" {
			return err
		}
		return step.Refuse(step.RefusedCheck, "step %s: %s", id, p.unseen)
	})
}

// verify compares every place with its state before.
func (p *process) verify(r *step.Reply) error {
	l := &p.journal.Ledger
	if !l.Final() && l.Touched() {
		clean := false
		r.Clean = &clean
		return p.not("there is nothing to compare yet")
	}
	clean := true
	p.mu.Lock()
	now := maps.Clone(p.text)
	if p.strange != "" {
		now[p.strange] = "new"
	}
	for _, place := range slices.Sorted(maps.Keys(now)) {
		if now[place] == p.before[place] || (p.hidden && now[place] == "by hand") {
			continue
		}
		d := step.Residue{Class: step.ClassFile, Key: place, Before: p.before[place], After: now[place]}
		for _, a := range l.Drill.Allowed {
			if a.Covers(d) {
				d.Allowed = a.Why
			}
		}
		clean = clean && d.Allowed != ""
		r.Residue = append(r.Residue, d)
	}
	p.mu.Unlock()
	r.Clean = &clean
	state := step.Reverted
	if !clean {
		state = step.Conflict
	}
	return p.locked(func() error {
		return errors.Join(p.journal.Refresh(), p.write(step.ByCLI, step.Entry{Event: step.EventClean, State: state}))
	})
}

// close removes the drill's artifacts.
func (p *process) close(r *step.Reply, force bool) error {
	l := &p.journal.Ledger
	switch {
	case force && !l.Known:
		p.with(func() { p.disk = nil })
		return nil
	case !l.Final() && !l.Closed:
		return p.not("it cannot be closed")
	case l.State() == step.Conflict:
		return p.not("it is not closed, for there is a conflict")
	}
	err := p.locked(func() error {
		return errors.Join(p.journal.Refresh(), p.write(step.ByCLI, step.Entry{Event: step.EventClosed}))
	})
	st := p.status(true)
	r.Status = &st
	p.with(func() { p.disk = nil })
	return err
}

// places are what the keeper changes.
type places struct{ *box }

const injected = "injected by "

func place(c step.Change) string { return c.File.Path }

// Snapshot implements node.Machine.
func (m places) Snapshot(_ context.Context, at node.Location) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return json.Marshal(m.text[place(at.Change)])
}

// Make implements node.Machine.
func (m places) Make(_ context.Context, at node.Location) error {
	time.Sleep(30700 * time.Microsecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocked > 0 {
		m.blocked--
		return errors.New("the kernel says no")
	}
	m.w.made(at.Step)
	if !m.noop {
		m.text[place(at.Change)] = injected + at.Step
		m.w.mark(place(at.Change), true)
	}
	return nil
}

// Compare implements node.Machine.
func (m places) Compare(_ context.Context, at node.Location) (node.Observed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var was string
	_ = json.Unmarshal(at.Note, &was)
	switch now := m.text[place(at.Change)]; {
	case m.noop, m.lying && at.Undone, now == was:
		return node.Observed{}, nil
	case now == injected+at.Step:
		return node.Observed{State: node.Injected}, nil
	}
	return node.Observed{State: node.Foreign, Text: "somebody has changed it"}, nil
}

// Undo implements node.Machine.
func (m places) Undo(_ context.Context, at node.Location) error {
	time.Sleep(30700 * time.Microsecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stuck > 0 {
		m.stuck--
		return errors.New("the kernel says no")
	}
	if m.leaky {
		m.text["/run/crumb"] = "left"
	}
	if !m.lying {
		m.text[place(at.Change)] = m.before[place(at.Change)]
		m.w.mark(place(at.Change), false)
	}
	return nil
}

// Notify implements node.Machine.
func (m places) Notify(context.Context, step.Notify) error { return nil }
