package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	for i := range f.ev.Events {
		e := &f.ev.Events[i]
		if !slices.Contains(eventTypes(), string(e.Type)) {
			continue
		}
		id := f.identity(e.Of())
		s := Subject{About: AboutEvent, What: eventWords(e), Index: id.Index, UUID: id.UUID, PCI: id.PCI, Event: i + 1}
		why := ""
		if f.earlier(e) {
			why = "of an earlier boot"
		} else if by := f.recovered(i, id); by != "" {
			why = "recovered: " + by + " the driver's word that it no longer requests an action"
		}
		if why != "" {
			f.Past = append(f.Past, Finding{Subject: s, Why: why})
			continue
		}
		f.Observations = append(f.Observations, Observation{s, eventValues(e, id)})
	}
}

// recovered returns what ended the condition that event i reports: the driver's recovery action of the same GPU
// returned to none, in a later event or, if that was missed, in a sample taken after the driver requested a reset. This
// ends what a reset of the GPU repairs, but nothing that needs a reboot or a person. If the driver was never seen to
// request anything after an error, no sample ends it: the driver requested nothing before the error either.
func (f *facts) recovered(i int, id report.Identity) (by string) {
	e := &f.ev.Events[i]
	if !resets(e) {
		return ""
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
		if action == report.ActionNone && j > i {
			return fmt.Sprintf("event %d is", j+1)
		}
		if action != report.ActionNone && resets(later) && later.At.After(wanted) {
			wanted = later.At
		}
	}
	for i := range f.gpus {
		g := &f.gpus[i]
		n, known := g.Value(report.RecoveryAction)
		if known && report.ActionOf(n) == report.ActionNone && same(g.UUID, g.PCI) && !wanted.IsZero() && g.at.After(wanted) {
			return fmt.Sprintf("the sample of GPU %d is", g.Index)
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
		words += toldWords(told(e.Type, e.XID))
	}
	if action, asks := asked(e); asks {
		words += " " + string(action)
	}
	if e.XID != nil && e.XID.Times > 1 {
		words += fmt.Sprintf(" (%d times)", e.XID.Times)
	}
	return words
}

// toldWords describes the driver's own verdict in an error.
func toldWords(x *report.XID) (words string) {
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
