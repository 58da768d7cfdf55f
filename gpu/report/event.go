package report

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Event is one raw event about the GPUs of a node. Exactly the section that its type names is set.
type Event struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Type       EventType `json:"type"`
	Source     Source    `json:"source"`
	At         time.Time `json:"at"`
	// BootID is the node's boot in which it was reported; "" if unknown. A report of an earlier boot is not evidence
	// about the present.
	BootID string `json:"boot_id,omitempty"`
	// GPU is the GPU concerned, as far as the source knows it. A DeviceEvent has it only in its section: see Of.
	GPU *Identity `json:"gpu,omitempty"`

	XID      *XID      `json:"xid,omitempty"`
	Action   *Recovery `json:"recovery,omitempty"`
	Device   *Device   `json:"device,omitempty"`
	Probe    *Probe    `json:"probe,omitempty"`
	Coverage *Coverage `json:"coverage,omitempty"`
	Dropped  *Dropped  `json:"dropped,omitempty"`
}

// MaxCount is the highest count of errors, and of dropped events, in one event. Sums stop there.
const MaxCount = 1 << 31

// EventType is what an event is about.
type EventType string

// Types of events, each with its section.
const (
	XIDEvent      EventType = "xid"              // XID: an error code of a GPU
	SXIDEvent     EventType = "sxid"             // XID: an error code of an NVSwitch
	LostEvent     EventType = "lost"             // XID without a code: a GPU has fallen off the bus
	InitEvent     EventType = "init_failed"      // XID without a code: the driver could not initialize a GPU
	ResetEvent    EventType = "reset_required"   // XID without a code: a GPU must be reset before it can be used
	MismatchEvent EventType = "version_mismatch" // XID without a code: a program's library does not fit the driver
	RecoveryEvent EventType = "recovery_action"  // Action: the driver requests another recovery action than before
	DeviceEvent   EventType = "device"           // Device: one GPU of a sample
	ProbeEvent    EventType = "probe"            // Probe: the state of the probe and of the driver's library
	CoverageEvent EventType = "coverage"         // Coverage: which part of a source was read
	DroppedEvent  EventType = "dropped"          // Dropped: events that the node did not report
)

// IsError reports whether events of this type are errors that a driver reported, and have an XID.
func (t EventType) IsError() bool { return t == XIDEvent || t == SXIDEvent || t.uncoded() }

func (t EventType) uncoded() bool {
	return t == LostEvent || t == InitEvent || t == ResetEvent || t == MismatchEvent
}

// WirePrefix precedes the type in the kind of an event on the wire: "gpu.xid".
const WirePrefix = "gpu."

// WireKind returns the kind of an event of this type on the wire.
func (t EventType) WireKind() string { return WirePrefix + string(t) }

// IsWireKind reports whether events of this kind have an event of this package as their detail.
func IsWireKind(kind string) bool { return strings.HasPrefix(kind, WirePrefix) }

// Source is who saw it.
type Source string

// Sources.
const (
	FromKernelLog Source = "kernel_log"
	FromNVML      Source = "nvml"
	FromAgent     Source = "agent"
)

// Identity names a GPU. The kernel log knows only the PCI address.
type Identity struct {
	Index           *int   `json:"index,omitempty"`
	UUID            string `json:"uuid,omitempty"`
	PCI             string `json:"pci,omitempty"`
	Name            string `json:"name,omitempty"`
	GPUInstance     *int   `json:"gpu_instance,omitempty"` // MIG instance
	ComputeInstance *int   `json:"compute_instance,omitempty"`
}

// Of returns the GPU that the event is about; empty for an event about the node.
func (e *Event) Of() Identity {
	switch {
	case e.GPU != nil:
		return *e.GPU
	case e.Device != nil:
		g := &e.Device.GPU
		return Identity{Index: &g.Index, UUID: g.UUID, PCI: g.PCI, Name: g.Name}
	}
	return Identity{}
}

// XID is an error as the driver reported it. Numbers that it did not report are absent.
type XID struct {
	Code     *int   `json:"code,omitempty"` // absent: a report without a code
	PID      *int   `json:"pid,omitempty"`
	Process  string `json:"process,omitempty"`
	Text     string `json:"text,omitempty"`
	CausedBy *int   `json:"caused_by,omitempty"` // the XID that the driver itself names as the root cause
	Recovery *int64 `json:"recovery,omitempty"`  // for an XID 154: the number of the requested action
	// Severity is the driver's own word, for an SXID and an NVLink 5 error: "Fatal", "Non-fatal" or "Always fatal".
	Severity string `json:"severity,omitempty"`
	Port     *int   `json:"port,omitempty"`     // for an SXID: Link
	Link     *int   `json:"link,omitempty"`     // the NVLink of the GPU or of the switch
	Reset    string `json:"reset,omitempty"`    // the driver's own word: "none", "gpu_reset" or "drain_and_reset"
	Unit     string `json:"unit,omitempty"`     // for an NVLink 5 error: the unit that reported it
	Status   string `json:"status,omitempty"`   // status words or registers of a link: "0x1 0x2"
	Injected bool   `json:"injected,omitempty"` // the driver marks it as injected for a test
	// Times is how often the error was reported since the previous event about it, at least 1.
	Times int64 `json:"times"`
	// Since is when the first of several was reported; At is when the last one was. Folded: they differ in process or
	// text, and this is the last one.
	Since  *time.Time `json:"since,omitempty"`
	Folded bool       `json:"folded,omitempty"`
	// Record is the number of the kernel log's record in its boot, absent for NVML. Two events with the same boot and
	// number are duplicates.
	Record *uint64 `json:"record,omitempty"`
	BootID string  `json:"boot_id,omitempty"`
}

// Absorb counts an earlier report of the same error at at, which is kept no longer, in this one.
func (x *XID) Absorb(earlier *XID, at time.Time) {
	x.Times = bounded.Add(x.Times, max(earlier.Times, 0), MaxCount)
	since := at.UTC()
	if earlier.Since != nil {
		since = *earlier.Since
	}
	if x.Since == nil || since.Before(*x.Since) {
		x.Since = &since
	}
	x.Folded = x.Folded || earlier.Folded || x.Text != earlier.Text || x.Process != earlier.Process ||
		(x.PID == nil) != (earlier.PID == nil) || (x.PID != nil && *x.PID != *earlier.PID)
}

// Recovery is a change of the recovery action that the driver requests.
type Recovery struct {
	From   *int64 `json:"from,omitempty"` // absent: not known before
	To     int64  `json:"to"`
	Action Action `json:"action"` // ActionOf(To)
}

// Device is one GPU of a sample.
type Device struct {
	SampledAt time.Time `json:"sampled_at"`
	Driver    string    `json:"driver,omitempty"`
	Count     int       `json:"count"` // number of GPUs that the driver counted in that sample
	GPU       GPU       `json:"gpu"`
}

// ProbeState is the state of the probe and of the driver's library.
type ProbeState string

// States of the probe.
const (
	Sampling ProbeState = "sampling" // samples arrive, and the library can be queried
	Unknown  ProbeState = "unknown"  // samples arrive, but the library cannot be queried: see Library
	Stuck    ProbeState = "stuck"    // a call does not return, or no sample arrives
	Ended    ProbeState = "ended"    // the process ended and will be restarted
	Missing  ProbeState = "missing"  // there is no such program
	Garbled  ProbeState = "garbled"  // its output is not a sample

	Unstartable ProbeState = "unstartable" // the program is there, or may be, and cannot be started
)

// Probe is the probe's own state.
type Probe struct {
	State    ProbeState   `json:"state"`
	Library  LibraryState `json:"library,omitempty"`
	Code     int          `json:"rc,omitempty"` // NVML's, of Init
	Call     string       `json:"call,omitempty"`
	Since    *time.Time   `json:"since,omitempty"` // of a stuck call: when it began
	PID      int          `json:"pid,omitempty"`
	Why      string       `json:"why,omitempty"`
	Count    *int         `json:"count,omitempty"` // GPUs, where that is known
	Expected *int         `json:"expected,omitempty"`
}

// DecodeEvent decodes one event: no trailing data, every rule of Check. It leaves out fields and signals that this
// build does not know, since a newer node may have written them.
func DecodeEvent(detail []byte) (*Event, error) {
	var e Event
	limits := bounded.Limits{Bytes: MaxEvent, Elements: 400, Values: 1_000, Depth: 10}
	if err := bounded.Unmarshal(detail, &e, limits); err != nil {
		return nil, fmt.Errorf("decode a GPU event: %w", err)
	}
	if e.Device != nil {
		e.Device.GPU.ForgetUnknown()
	}
	if err := e.Check(); err != nil {
		return nil, fmt.Errorf("check a GPU event: %w", err)
	}
	return &e, nil
}

// Check reports whether an event is valid.
func (e *Event) Check() error {
	if e.APIVersion != APIVersion || e.Kind != KindEvent {
		return fmt.Errorf("it is %q %q, want %q %q", e.APIVersion, e.Kind, APIVersion, KindEvent)
	}
	if !bounded.Plausible(e.At) {
		return errors.New("it has no time that a clock may show")
	}
	switch e.Source {
	case FromKernelLog, FromNVML, FromAgent:
	default:
		return fmt.Errorf("unknown source %q", e.Source)
	}
	if !short(e.BootID) {
		return errors.New("its boot's id is too long")
	}
	if g := e.GPU; g != nil && !short(g.UUID, g.PCI, g.Name) {
		return errors.New("its GPU's identity is too long")
	}
	sections := map[EventType]bool{
		XIDEvent: e.XID != nil, RecoveryEvent: e.Action != nil, DeviceEvent: e.Device != nil, ProbeEvent: e.Probe != nil,
		CoverageEvent: e.Coverage != nil, DroppedEvent: e.Dropped != nil,
	}
	section := e.Type
	if e.Type.IsError() {
		section = XIDEvent
	}
	if _, ok := sections[section]; !ok {
		return fmt.Errorf("unknown type %q", e.Type)
	}
	for of, set := range sections {
		if set != (of == section) {
			return fmt.Errorf("type %s: the section of %s is set: %t", e.Type, of, set)
		}
	}
	return e.checkSection()
}

func (e *Event) checkSection() error {
	switch {
	case e.XID != nil:
		return e.XID.check(e.Type)
	case e.Action != nil && e.Action.Action != ActionOf(e.Action.To):
		return fmt.Errorf("action %d is %s, not %s", e.Action.To, ActionOf(e.Action.To), e.Action.Action)
	case e.Device != nil:
		if !bounded.Plausible(e.Device.SampledAt) {
			return errors.New("its sample has no time that a clock may show")
		}
		return e.Device.GPU.check()
	case e.Probe != nil:
		return e.Probe.check()
	case e.Coverage != nil:
		return e.Coverage.check()
	case e.Dropped != nil:
		return e.Dropped.check()
	}
	return nil
}

func (x *XID) check(t EventType) error {
	switch {
	case x.Times < 1 || x.Times > MaxCount:
		return fmt.Errorf("it was reported %d times", x.Times)
	case (x.Code == nil) != t.uncoded():
		return fmt.Errorf("type %s with code: %t", t, x.Code != nil)
	case x.Code != nil && *x.Code < 0:
		return fmt.Errorf("code %d", *x.Code)
	case x.Since != nil && !bounded.Plausible(*x.Since):
		return errors.New("since a time that no clock may show")
	}
	return nil
}

func (p *Probe) check() error {
	switch p.State {
	case Sampling, Ended, Missing, Unstartable, Garbled:
	case Stuck:
		if p.Since == nil || !bounded.Plausible(*p.Since) {
			return errors.New("a stuck probe without since")
		}
	case Unknown:
		if p.Library == "" || p.Library == Loaded {
			return fmt.Errorf("an unknown probe whose library is %q", p.Library)
		}
	default:
		return fmt.Errorf("unknown state of the probe %q", p.State)
	}
	return nil
}
