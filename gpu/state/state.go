// Package state defines the file in which a node's agent stores what it knows about its GPUs: the last sample, the
// state of the probe, which part of the kernel log was read, and the errors of this boot.
//
// The agent's outbox forgets what it has sent to the platform; this file does not, so it can be read on the node
// without the agent and without a platform. It judges nothing. The agent writes it (agent/gpu), the operation `gpu` of
// a walk reads it (preflight/probe).
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Kind and version of the document, and the name of its file in the agent's folder.
const (
	Kind     = "GPUNodeState"
	FileName = "gpu.json"
)

// Bounds of the file.
const (
	MaxBytes  = 768 << 10
	maxEvents = 96
)

// Every is how often an agent writes the file if only gauges and counters change. StaleAfter is the age at which its
// coverage of the kernel log is no longer evidence about the present.
const (
	Every      = time.Minute
	StaleAfter = 3 * time.Minute
)

// State is the document.
type State struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	At         time.Time `json:"at"` // when it was written
	// BootID is the boot that the document is about; "" if the agent could not read it.
	BootID string         `json:"boot_id,omitempty"`
	Sample *report.Sample `json:"sample,omitempty"` // the newest sample
	// Probe is the last change of the probe's state, Log which part of the kernel log was read.
	Probe *report.Event  `json:"probe,omitempty"`
	Log   *kmsg.Coverage `json:"kernel_log,omitempty"`
	// Events are the errors of this boot, oldest first. Of equal ones the last is kept, with their number in Times.
	Events []report.Event `json:"events,omitempty"`
	// Forgotten counts errors of this boot for which there was no room, by type.
	Forgotten map[report.EventType]int64 `json:"forgotten,omitempty"`
}

// Keep adds an event, and reports whether the document has changed. It does not add events of a sample, since Sample
// has more.
func (s *State) Keep(e *report.Event) bool {
	switch {
	case e.Type == report.ProbeEvent:
		s.Probe = e
		return true
	case !isError(e.Type):
		return false
	}
	for i := range s.Events {
		if sameRecord(&s.Events[i], e) {
			return false
		}
	}
	if !fits(e) {
		s.forget(e.Type)
		return true
	}
	s.Events = append(s.Events, *e)
	if len(s.Events) > maxEvents {
		s.makeRoom()
	}
	return true
}

// fits reports whether an event is within the limit of every reader.
func fits(e *report.Event) bool {
	text, err := json.Marshal(e)
	return err == nil && len(text) <= report.MaxEvent
}

func isError(t report.EventType) bool {
	return t.IsError() || t == report.RecoveryEvent
}

// sameRecord reports whether both events are one record of the kernel log, which a restarted agent may read again.
func sameRecord(a, b *report.Event) bool {
	return a.XID != nil && b.XID != nil && a.XID.Record != nil && b.XID.Record != nil &&
		*a.XID.Record == *b.XID.Record && a.XID.BootID == b.XID.BootID && sameError(a, b)
}

// sameError reports whether two events differ at most in process, text and number.
func sameError(a, b *report.Event) bool {
	x, y := a.Of(), b.Of()
	if a.Type != b.Type || x.UUID != y.UUID || x.PCI != y.PCI || a.Source != b.Source ||
		!same(x.GPUInstance, y.GPUInstance) {
		return false
	}
	switch {
	case a.XID != nil && b.XID != nil:
		return same(a.XID.Code, b.XID.Code) && same(a.XID.CausedBy, b.XID.CausedBy) && same(a.XID.Port, b.XID.Port) &&
			same(a.XID.Recovery, b.XID.Recovery) && a.XID.Severity == b.XID.Severity && same(a.XID.Link, b.XID.Link) &&
			a.XID.Reset == b.XID.Reset && a.XID.Injected == b.XID.Injected
	case a.Action != nil && b.Action != nil:
		return a.Action.To == b.Action.To
	}
	return false
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// makeRoom merges the oldest event that has a later equal one into that, preferably one with the same text, which has
// the place of the fault. If every event is the only one of its kind, it drops the oldest, and counts it as forgotten.
func (s *State) makeRoom() {
	for _, equal := range [...]func(a, b *report.Event) bool{sameText, sameError} {
		for i := range s.Events {
			for j := i + 1; j < len(s.Events); j++ {
				old, later := &s.Events[i], &s.Events[j]
				if !equal(old, later) {
					continue
				}
				if later.XID != nil {
					x := *later.XID // the event is shared
					x.Absorb(old.XID, old.At)
					later.XID = &x
				}
				s.Events = slices.Delete(s.Events, i, i+1)
				return
			}
		}
	}
	s.forget(s.Events[0].Type)
	s.Events = slices.Delete(s.Events, 0, 1)
}

// sameText reports whether two events differ at most in process and number.
func sameText(a, b *report.Event) bool {
	return sameError(a, b) && a.XID != nil && a.XID.Text == b.XID.Text
}

func (s *State) forget(t report.EventType) {
	if s.Forgotten == nil {
		s.Forgotten = map[report.EventType]int64{}
	}
	s.Forgotten[t]++
}

// Begin drops everything of boots other than boot.
func (s *State) Begin(boot string) {
	if s.BootID == boot {
		return
	}
	*s = State{BootID: boot}
}

// Read reads the file at path. It never blocks on anything but a regular file, and follows no symbolic link. Data of a
// newer agent that this build does not know is left out; an unknown event counts as forgotten, as an error that this
// build cannot show. An error that is not ErrMalformed is the file system's.
func Read(path string) (*State, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was read only
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: it is not a regular file", path, ErrMalformed)
	}
	data, err := bounded.Read(io.Reader(f), MaxBytes)
	switch {
	case errors.Is(err, bounded.ErrLimit):
		return nil, fmt.Errorf("%s: %w: %w", path, ErrMalformed, err)
	case err != nil:
		return nil, err
	}
	s, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// ErrMalformed is wrapped by the error for a file that is not this document.
var ErrMalformed = errors.New("not what an agent keeps of its GPUs")

// Decode decodes the document.
func Decode(data []byte) (*State, error) {
	var s State
	limits := bounded.Limits{Bytes: MaxBytes, Elements: 12_000, Values: 60_000, Depth: 12}
	if err := bounded.Unmarshal(data, &s, limits); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return &s, nil
}

func (s *State) check() error {
	if s.APIVersion != report.APIVersion || s.Kind != Kind {
		return fmt.Errorf("it is %.40q %.40q, want %q %q", s.APIVersion, s.Kind, report.APIVersion, Kind)
	}
	if s.At.IsZero() || len(s.BootID) > 256 {
		return errors.New("it has no time, or a boot id that is too long")
	}
	if s.Sample != nil {
		for i := range s.Sample.GPUs {
			s.Sample.GPUs[i].ForgetUnknown() // from a newer agent
		}
		if err := s.Sample.Check(); err != nil {
			return fmt.Errorf("sample: %w", err)
		}
	}
	if p := s.Probe; p != nil && (p.Type != report.ProbeEvent || p.Check() != nil) {
		return errors.New("the probe's state is not an event of it")
	}
	for t, n := range s.Forgotten {
		if n < 0 || len(t) > 64 {
			return errors.New("it has forgotten fewer than no events")
		}
	}
	s.Events = slices.DeleteFunc(s.Events, func(e report.Event) bool {
		if isError(e.Type) && e.Check() == nil && fits(&e) {
			return false
		}
		s.forget(report.XIDEvent)
		return true
	})
	for len(s.Events) > maxEvents {
		s.makeRoom()
	}
	return nil
}
