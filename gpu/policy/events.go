package policy

import (
	"cmp"
	"fmt"
	"slices"

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
		} else if by := f.recovered(i, id); by > 0 {
			why = fmt.Sprintf("recovered: event %d is the driver's word that it asks for nothing any more", by)
		}
		if why != "" {
			f.Past = append(f.Past, Finding{Subject: s, Why: why})
			continue
		}
		f.Observations = append(f.Observations, Observation{s, eventValues(e, id)})
	}
}

// recovered is the number of a later event by which the driver ended what event i reports: its recovery action of the
// same GPU went back to none. It ends what a reset of the GPU repairs, and nothing that takes a reboot or a person.
func (f *facts) recovered(i int, id report.Identity) int {
	e := &f.ev.Events[i]
	action, asks := asked(e)
	resets := asks && action != report.ActionReboot
	if e.XID != nil && !asks {
		class, _ := classOf(e.Type, e.XID)
		resets = class == xid.GPUReset
	}
	if !resets || (id.UUID == "" && id.PCI == "") {
		return 0
	}
	for j := i + 1; j < len(f.ev.Events); j++ {
		later := &f.ev.Events[j]
		now, asks := asked(later)
		other := f.identity(later.Of())
		same := (id.UUID != "" && id.UUID == other.UUID) || (id.PCI != "" && id.PCI == other.PCI)
		if asks && now == report.ActionNone && same && !later.At.Before(e.At) {
			return j + 1
		}
	}
	return 0
}

// asked is the recovery action that an event reports, and whether it reports one.
func asked(e *report.Event) (report.Action, bool) {
	switch {
	case e.Action != nil:
		return e.Action.Action, true
	case e.XID != nil && e.XID.Recovery != nil:
		return report.ActionOf(*e.XID.Recovery), true
	}
	return "", false
}

// identity adds what the samples know of a GPU that an event names by its address or UUID.
func (f *facts) identity(id report.Identity) report.Identity {
	for i := range f.gpus {
		g := &f.gpus[i]
		if (id.PCI != "" && id.PCI == g.PCI) || (id.UUID != "" && id.UUID == g.UUID) {
			index := g.Index
			id.Index, id.UUID, id.PCI = &index, cmp.Or(id.UUID, g.UUID), cmp.Or(id.PCI, g.PCI)
			return id
		}
	}
	return id
}

// eventWords names an event for people.
func eventWords(e *report.Event) string {
	words := string(e.Type)
	if e.XID != nil && e.XID.Code != nil {
		words += fmt.Sprint(" ", *e.XID.Code)
		if e.XID.CausedBy != nil {
			words += fmt.Sprint(", caused by ", *e.XID.CausedBy)
		}
	}
	if action, asks := asked(e); asks {
		words += " " + string(action)
	}
	if e.XID != nil && e.XID.Times > 1 {
		words += fmt.Sprintf(" (%d times)", e.XID.Times)
	}
	return words
}
