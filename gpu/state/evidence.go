package state

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// Evidence returns the document as the events that a platform would have, oldest first, for a policy to judge. now is
// the node's clock, up the time since boot at that moment.
func (s *State) Evidence(now time.Time, up time.Duration) []report.Event {
	all := append([]report.Event{}, s.Events...)
	all = append(all, s.devices()...)
	if len(s.Forgotten) > 0 {
		all = append(all, s.event(report.DroppedEvent, s.At, report.Event{
			Dropped: &report.Dropped{Since: s.At, Count: s.Forgotten, Why: "size"}}))
	}
	if s.Probe != nil {
		all = append(all, *s.Probe)
	}
	if s.Log != nil {
		all = append(all, s.event(report.CoverageEvent, now,
			report.Event{Coverage: CoverageOf(*s.Log, cmp.Or(s.At, now), now, up)}))
	}
	return all
}

// devices returns the GPUs of the sample, unless the probe has failed since: then nothing is known about them now.
func (s *State) devices() (all []report.Event) {
	if s.Sample == nil || (s.Probe != nil && s.Probe.Probe.State != report.Sampling) {
		return nil
	}
	for i := range s.Sample.GPUs {
		all = append(all, s.event(report.DeviceEvent, s.Sample.At, *DeviceOf(s.Sample, i)))
	}
	return all
}

func (s *State) event(t report.EventType, at time.Time, e report.Event) report.Event {
	e.APIVersion, e.Kind, e.Type, e.At, e.BootID = report.APIVersion, report.KindEvent, t, at.UTC(), s.BootID
	e.Source = cmp.Or(e.Source, report.FromAgent)
	return e
}

// DeviceOf returns the i-th GPU of a sample as an event, without what is private and what only the sample lists.
func DeviceOf(s *report.Sample, i int) *report.Event {
	d := &report.Device{SampledAt: s.At, Count: len(s.GPUs), GPU: s.GPUs[i].Brief()}
	if s.Library.Driver.Text != nil {
		d.Driver = *s.Library.Driver.Text
	}
	return &report.Event{Type: report.DeviceEvent, Source: report.FromNVML, At: s.At, Device: d}
}

// Named completes the identity of a GPU that an event names by its PCI address or UUID, from the sample.
func (s *State) Named(id report.Identity) report.Identity {
	if s.Sample == nil {
		return id
	}
	for i := range s.Sample.GPUs {
		g := &s.Sample.GPUs[i]
		if (id.PCI != "" && id.PCI == g.PCI) || (id.UUID != "" && id.UUID == g.UUID) {
			id.Index, id.UUID, id.PCI = &g.Index, cmp.Or(id.UUID, g.UUID), cmp.Or(id.PCI, g.PCI)
			return id
		}
	}
	return id
}

// KernelEvent converts what the driver wrote to the kernel log to an event. It converts times to the node's clock,
// given the current time now and the time since boot up. The event is of the last of several equal faults.
func KernelEvent(e *kmsg.Event, now time.Time, up time.Duration) *report.Event {
	x := &report.XID{
		Code: known(e.Code), PID: known(e.PID), Process: e.Name, Text: e.Text, CausedBy: known(e.Cause),
		Severity: e.Severity, Link: known(e.Link), Reset: e.Reset, Unit: e.Unit, Status: e.Status, Injected: e.Injected,
		Times: int64(max(e.Count, 1)), Record: &e.Seq, BootID: e.BootID,
	}
	if e.Kind == kmsg.SXID {
		x.Port = x.Link
	}
	if e.Recovery != kmsg.Absent {
		x.Recovery = new(int64(e.Recovery))
	}
	at := e.First
	if x.Times > 1 && e.Last > e.First {
		at, x.Since, x.Folded = e.Last, new(wall(e.First, now, up)), e.Folded
	}
	return &report.Event{APIVersion: report.APIVersion, Kind: report.KindEvent, Type: report.EventType(e.Kind),
		Source: report.FromKernelLog, At: wall(at, now, up), BootID: e.BootID, XID: x,
		GPU: &report.Identity{PCI: e.Device, UUID: e.UUID, GPUInstance: known(e.GPUInstance),
			ComputeInstance: known(e.ComputeInstance)}}
}

func known(n int) *int {
	if n == kmsg.Absent {
		return nil
	}
	return &n
}

// wall converts a time since boot to the clock that reads now when up has passed since boot.
func wall(since time.Duration, now time.Time, up time.Duration) time.Time {
	return now.Add(since - up).UTC()
}

// CoverageOf returns which part of the kernel log was read, as an event's section. began is when the reading began, for
// a log of which nothing was read.
func CoverageOf(so kmsg.Coverage, began, now time.Time, up time.Duration) *report.Coverage {
	c := &report.Coverage{From: wall(so.From, now, up), To: wall(so.Until, now, up), BootID: so.BootID, Blind: so.Blind,
		Lost: so.Lost}
	if so.Records == 0 {
		c.From, c.To = began.UTC(), began.UTC()
	}
	if c.To.Before(c.From) {
		c.To = c.From
	}
	for _, g := range so.Gaps {
		if g.BootID != so.BootID { // times of an earlier boot cannot be converted
			continue
		}
		gap := report.Gap{Cause: string(g.Cause), From: wall(max(g.From, 0), now, up), Lost: g.Lost}
		if g.To != kmsg.Forever {
			gap.To = new(wall(g.To, now, up))
		}
		c.Gaps = append(c.Gaps, gap)
	}
	return c
}

// LogIsCurrent reports whether the kernel log of the boot was read until shortly before now, and if not, why.
func (s *State) LogIsCurrent(boot string, up time.Duration) (ok bool, why string) {
	switch l := s.Log; {
	case l == nil:
		return false, "the agent has not read the kernel log"
	case l.Blind != "":
		return false, "the agent cannot read the kernel log: " + l.Blind
	case l.BootID != boot:
		return false, "the agent has not read the kernel log of this boot"
	case up-l.Until > StaleAfter:
		return false, fmt.Sprintf("the agent read the kernel log last %s ago", (up - l.Until).Round(time.Second))
	}
	return true, ""
}

// ReadOn reads the kernel log from where the agent stopped, and adds what it finds. It is for readers: it stores
// nothing on the node. After an error the coverage is blind.
func (s *State) ReadOn(path, boot string, now time.Time, uptime func() time.Duration) error {
	var so kmsg.Coverage
	if s.Log != nil {
		so = *s.Log
	}
	s.Begin(boot)
	source, err := kmsg.Open(path)
	if err != nil {
		so = kmsg.NotCovered(so, err)
		s.Log = &so
		return err
	}
	defer source.Close() //nolint:errcheck // it was read only
	r := kmsg.NewReader(source, boot, so, uptime)
	b, err := r.Drain(0)
	for i := range b.Events {
		s.Keep(KernelEvent(&b.Events[i], now, uptime()))
	}
	so = r.Coverage()
	if err == nil && !b.CaughtUp {
		err = fmt.Errorf("read the kernel log: it has more than %d records", b.Records)
		so.Blind = err.Error()
	}
	s.Log = &so
	return err
}
