package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/fault"
	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
)

// events makes observations of the events that count.
func (f *facts) events() {
	if n := len(f.ev.Events); n > MaxEvents {
		f.floor(onNode("the events"), "%d events were reported, and the last %d are judged", n, MaxEvents)
		f.ev.Events = f.ev.Events[n-MaxEvents:]
	}
	all := slices.DeleteFunc(fault.Merge(f.ev.Events, f.identity), func(one fault.Fault) bool {
		return !slices.Contains(eventTypes(), string(one.Type))
	})
	r := repeats{}
	var current []*fault.Fault
	for i := range all {
		one := &all[i]
		why := "of an earlier boot"
		if !f.earlier(&one.Event) {
			why = f.recovered(one)
		}
		if why != "" {
			f.Past = append(f.Past, Finding{Subject: subjectOf(one), Why: why})
			continue
		}
		r.add(one)
		current = append(current, one)
	}
	for _, one := range current {
		v := eventValues(&one.Event, *one.GPU)
		r.values(v, one)
		f.Observations = append(f.Observations, Observation{subjectOf(one), v})
	}
	f.Notes = append(f.Notes, r.notes()...)
}

// subjectOf returns what a finding about the fault is about.
func subjectOf(of *fault.Fault) Subject {
	id := of.GPU
	s := Subject{About: AboutEvent, What: eventWords(&of.Event), Index: id.Index, UUID: id.UUID, PCI: id.PCI,
		Event: of.Numbers[0] + 1, At: new(of.At.UTC()), Sources: of.Sources}
	if since := of.Since(); since.Before(of.At) {
		s.Since = new(since.UTC())
	}
	if len(of.Places) == 1 {
		s.Place = of.Places[0]
	}
	return s
}

// recovered returns what ended the condition that a fault reports: the driver's recovery action of the same GPU
// returned to none, in a later event or, if that was missed, in a sample taken after the driver requested a reset. This
// ends what a reset of the GPU repairs, but nothing that needs a reboot or a person. If the driver was never seen to
// request anything after an error, no sample ends it: the driver requested nothing before the error either.
//
// A GPU in whose place there is another one has ended with all that it reported.
func (f *facts) recovered(of *fault.Fault) (by string) {
	e, id := &of.Event, *of.GPU
	if by := f.replaced(of); by != "" || !resets(e) {
		return by
	}
	same := func(uuid, pci string) bool { // an event without a GPU's name is of no GPU
		return (id.UUID != "" && id.UUID == uuid) || (id.PCI != "" && id.PCI == pci)
	}
	var wanted time.Time // when a reset was last requested
	for j := range f.ev.Events {
		later := &f.ev.Events[j]
		action, asks := asked(later)
		other := f.identity(later.Of())
		if !asks || later.At.Before(e.At) || f.earlier(later) || !same(other.UUID, other.PCI) {
			continue
		}
		if action == report.ActionNone && j > of.Numbers[0] {
			return fmt.Sprintf("recovered: event %d is %s, at %s", j+1, drivers, later.At.UTC().Format(time.RFC3339))
		}
		if action != report.ActionNone && resets(later) && later.At.After(wanted) {
			wanted = later.At
		}
	}
	for i := range f.gpus {
		g := &f.gpus[i]
		n, known := g.Value(report.RecoveryAction)
		if known && report.ActionOf(n) == report.ActionNone && same(g.UUID, g.PCI) && !wanted.IsZero() && g.at.After(wanted) {
			return fmt.Sprintf("recovered: the sample of GPU %d is %s, at %s", g.Index, drivers, g.at.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// drivers is what ends a request for a reset.
const drivers = "the driver's word that it no longer requests an action"

// replaced returns which GPU is now where the one was that reported the fault, if NVML named it: a GPU keeps its UUID.
func (f *facts) replaced(of *fault.Fault) (by string) {
	own := of.GPU.UUID
	if own == "" || of.GPU.PCI == "" || slices.ContainsFunc(f.gpus, func(g seen) bool { return g.UUID == own }) {
		return ""
	}
	for i := range f.gpus {
		g := &f.gpus[i]
		if g.PCI == of.GPU.PCI && g.UUID != "" && g.Handle.Known() && !g.Lost() && g.at.After(of.At) {
			return fmt.Sprintf("replaced: %s is no longer at %s, where %s is, at %s", own, g.PCI, g.UUID,
				g.at.UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// resets reports whether a reset of the GPU repairs what the event reports.
func resets(e *report.Event) bool {
	if action, asks := asked(e); asks {
		return action != report.ActionReboot
	}
	if e.XID == nil {
		return false
	}
	class, _ := Reported(e).Consequence()
	return class == xid.GPUReset || class == xid.Drain
}

// asked returns the recovery action that an event reports, and whether it reports one.
func asked(e *report.Event) (report.Action, bool) {
	switch {
	case e.Action != nil:
		return e.Action.Action, true
	case e.XID != nil && e.XID.Recovery != nil:
		return report.ActionOf(*e.XID.Recovery), true
	}
	return "", false
}

// identity completes the identity of a GPU that an event names by its address or UUID, from the samples.
func (f *facts) identity(id report.Identity) report.Identity {
	for i := range f.gpus {
		g := &f.gpus[i]
		if (id.PCI != "" && id.PCI == g.PCI) || (id.UUID != "" && id.UUID == g.UUID) {
			id.Index, id.UUID, id.PCI = new(g.Index), cmp.Or(id.UUID, g.UUID), cmp.Or(id.PCI, g.PCI)
			return id
		}
	}
	return id
}

// eventWords describes an event for people.
func eventWords(e *report.Event) string {
	words := string(e.Type)
	if e.XID != nil && e.XID.Code != nil {
		words += fmt.Sprint(" ", *e.XID.Code)
		if e.XID.CausedBy != nil {
			words += fmt.Sprint(", caused by ", *e.XID.CausedBy)
		}
	}
	if e.XID != nil {
		words += verdictWords(completed(e.Type, e.XID))
	}
	if action, asks := asked(e); asks {
		words += " " + string(action)
	}
	if e.XID != nil && e.XID.Times > 1 {
		words += fmt.Sprintf(" (%d times)", e.XID.Times)
	}
	return words
}

// verdictWords describes the driver's own verdict in an error.
func verdictWords(x *report.XID) (words string) {
	if x.Severity != "" {
		words += ", " + x.Severity
	}
	if x.Link != nil {
		words += fmt.Sprint(", link ", *x.Link)
	}
	switch x.Reset {
	case kmsg.ResetGPU:
		words += ", RST: Yes"
	case kmsg.ResetDrain:
		words += ", D-RST: Yes"
	}
	if x.Injected {
		words += ", injected"
	}
	return words
}
