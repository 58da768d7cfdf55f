package fault

import (
	"cmp"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// lineOf returns an event of the kernel log as the line that it was, in a boot of its own.
func lineOf(e *report.Event) kmsg.Line {
	x, id := e.XID, e.Of()
	l := kmsg.Line{Kind: kmsg.Kind(e.Type), Code: number(x.Code), Device: id.PCI, UUID: id.UUID,
		GPUInstance: number(id.GPUInstance), ComputeInstance: number(id.ComputeInstance), PID: number(x.PID),
		Name: x.Process, Text: x.Text, Cause: number(x.CausedBy), Recovery: kmsg.Absent,
		Verdict: kmsg.Verdict{Severity: x.Severity, Reset: x.Reset, Unit: x.Unit, Link: number(x.Link), Status: x.Status,
			Injected: x.Injected}}
	if x.Recovery != nil {
		l.Recovery = int(*x.Recovery)
	}
	if l.Device != "" {
		l.Device = cmp.Or(e.BootID, x.BootID) + " " + l.Device
	}
	return l
}

func number(n *int) int {
	if n == nil {
		return kmsg.Absent
	}
	return *n
}

func known(n int) *int {
	if n == kmsg.Absent {
		return nil
	}
	return &n
}

// absorb gives the fault what all lines about it have.
func (f *Fault) absorb(l *kmsg.Line) {
	x := f.XID
	f.Type = report.EventType(l.Kind)
	x.Code, x.PID, x.Process, x.Text = known(l.Code), known(l.PID), l.Name, l.Text
	x.CausedBy, x.Severity, x.Unit, x.Status, x.Link = known(l.Cause), l.Severity, l.Unit, l.Status, known(l.Link)
	if l.Kind == kmsg.SXID {
		x.Port = x.Link
	}
}
