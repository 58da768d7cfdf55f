package policy

import (
	"cmp"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
)

// Reported returns what decides the class of a driver's error. The event must have an XID.
func Reported(e *report.Event) xid.Reported {
	x := completed(e.Type, e.XID)
	r := xid.Reported{SXID: e.Type == report.SXIDEvent, Severity: x.Severity, Reset: x.Reset, Injected: x.Injected,
		Action: x.Recovery}
	if x.Code != nil {
		r.Code = *x.Code
	} else {
		r.Word = string(e.Type)
	}
	if x.CausedBy != nil {
		r.CausedBy = *x.CausedBy
	}
	return r
}

// completed returns an XID with what its text has and its fields lack: an older agent sends the text alone. Nothing in
// the text makes an error milder than its code, but for the driver's mark of an injected one.
func completed(t report.EventType, x *report.XID) *report.XID {
	if t != report.XIDEvent || x.Code == nil || x.Text == "" {
		return x
	}
	v := kmsg.VerdictOf(*x.Code, x.Text)
	full := *x
	full.Severity, full.Reset = cmp.Or(x.Severity, v.Severity), cmp.Or(x.Reset, v.Reset)
	full.Unit, full.Status = cmp.Or(x.Unit, v.Unit), cmp.Or(x.Status, v.Status)
	full.Injected = x.Injected || v.Injected
	if x.Link == nil && v.Link != kmsg.Absent {
		full.Link = &v.Link
	}
	return &full
}
