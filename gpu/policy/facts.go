package policy

import (
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
)

// eventValues returns the fields of an event. id is its GPU, as far as the samples identify it.
func eventValues(e *report.Event, id report.Identity) Values {
	v := Values{"type": {Of: string(e.Type)}, "source": {Of: string(e.Source)}, "times": {Of: int64(1)}}
	v.number("index", id.Index)
	v.text("uuid", id.UUID)
	v.text("pci", id.PCI)
	v.number("gpu_instance", id.GPUInstance)
	v.number("compute_instance", id.ComputeInstance)
	class, condemns := xid.Unknown, xid.Undecided
	if e.XID != nil {
		errorValues(v, completed(e.Type, e.XID))
		class, condemns = Reported(e).Consequence()
	}
	if e.Action != nil {
		v.text("recovery_action", string(e.Action.Action))
		class, condemns = xid.Carrier, xid.ScopeOfAction(e.Action.To)
	}
	v["class"], v["condemns"] = Value{Of: string(class)}, Value{Of: string(condemns)}
	return v
}

// errorValues adds the fields of an error.
func errorValues(v Values, x *report.XID) {
	v["times"], v["injected"] = Value{Of: x.Times}, Value{Of: x.Injected}
	v.number("code", x.Code)
	v.number("caused_by", x.CausedBy)
	v.number("root", x.Code)
	v.number("root", x.CausedBy)
	v.number("pid", x.PID)
	v.number("port", x.Port)
	v.number("link", x.Port)
	v.number("link", x.Link)
	v.text("process", x.Process)
	v.text("severity", x.Severity)
	v.text("reset", x.Reset)
	v.text("unit", x.Unit)
	v.text("status", x.Status)
	v.text("text", x.Text)
	if x.Recovery != nil {
		v.text("recovery_action", string(report.ActionOf(*x.Recovery)))
	}
}

// gpuValues returns the fields of a GPU of a sample.
func gpuValues(g *report.GPU) Values {
	v := Values{"index": {Of: int64(g.Index)}, "lost": {Of: g.Lost()}}
	v.text("uuid", g.UUID)
	v.text("pci", g.PCI)
	v.text("name", g.Name)
	for _, s := range report.Signals() {
		if s.Signal.Private() {
			continue
		}
		name := string(s.Signal)
		r, there := g.Signals[s.Signal]
		if !there {
			v[name] = Value{Failed: "was not measured"}
			continue
		}
		of, why := answer(r, s)
		if r.NotAsked == report.NoHandle && g.Handle.Failed != 0 {
			why = "was not measured: the GPU has no handle: " + g.Handle.Why()
		}
		if of != nil || why != "" {
			v[name] = Value{Of: of, Failed: why}
		}
	}
	if _, must := g.MustReset(); must { // another call may have said so
		v[string(report.ResetRequired)] = Value{Of: true}
	}
	if mask, ok := v[string(report.ClocksEventReasons)]; ok {
		for name, bit := range map[string]int64{
			"hw_slowdown": report.HWSlowdown, "hw_thermal_slowdown": report.HWThermalSlowdown,
			"hw_power_brake": report.HWPowerBrake, "sw_thermal_slowdown": report.SWThermalSlowdown,
		} {
			if n, known := mask.Of.(int64); known {
				v[name] = Value{Of: n&bit != 0}
			} else {
				v[name] = mask
			}
		}
	}
	// The number of links that are down is known only if the links could be counted.
	if links, ok := v[string(report.NVLinks)]; ok {
		v["nvlinks_down"] = links
		if links.Failed == "" {
			v["nvlinks_down"] = Value{Of: int64(len(g.LinksDown))}
		}
	}
	return v
}

// answer converts a reading to a value; nil without a reason if the GPU or its driver does not support it.
func answer(r report.Reading, s report.Info) (of any, failed string) {
	n, known := r.Number()
	switch {
	case r.Unsupported, r.NotAsked == report.NoSymbol, r.NotAsked == report.NotThere:
		return nil, ""
	case known && s.Signal == report.RecoveryAction:
		return string(report.ActionOf(n)), ""
	case known && s.Unit == "flag":
		return n != 0, ""
	case known && s.Unit != "text":
		return n, ""
	case r.Text != nil && s.Unit == "text":
		return *r.Text, ""
	case r.Known():
		return nil, "is of another type: " + r.String()
	case r.Failed != 0:
		return nil, "could not be read: " + report.CodeOf(r.Failed).Words()
	}
	return nil, "was not measured: " + r.String()
}
