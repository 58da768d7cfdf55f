package policy

import (
	"cmp"
	"fmt"

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
	if x := e.XID; x != nil {
		v["times"] = Value{Of: x.Times}
		v.number("code", x.Code)
		v.number("caused_by", x.CausedBy)
		v.number("root", x.Code)
		v.number("root", x.CausedBy)
		v.number("pid", x.PID)
		v.number("port", x.Port)
		v.text("process", x.Process)
		v.text("severity", x.Severity)
		v["text"] = Value{}
		v.text("text", x.Text)
		class, condemns = classOf(e.Type, x)
		if x.Recovery != nil {
			action := report.ActionOf(*x.Recovery)
			v.text("recovery_action", string(action))
			condemns = scopeOf(action)
		}
	}
	if e.Action != nil {
		v.text("recovery_action", string(e.Action.Action))
		class, condemns = xid.Carrier, scopeOf(e.Action.Action)
	}
	v["class"], v["condemns"] = Value{Of: string(class)}, Value{Of: string(condemns)}
	if v["text"] == (Value{}) {
		delete(v, "text")
	}
	return v
}

// fallenOff is the XID of a GPU that has fallen off the bus, which a line may report without a code.
const fallenOff = 79

// classOf returns the class of an error, and the scope that takes no new work after it.
func classOf(t report.EventType, x *report.XID) (xid.Class, xid.Scope) {
	class := xid.Unknown
	switch {
	case t == report.SXIDEvent:
		class = classOfSwitch(x)
	case t == report.LostEvent:
		class = classOfCode(fallenOff)
	case x.Code != nil:
		class = classOfCode(*x.Code)
		// An error that follows from another one is as bad as that one, which may not have been recorded.
		if class == xid.Sympathetic && x.CausedBy != nil {
			class = classOfCode(*x.CausedBy)
		}
	}
	return class, xid.ClassRowOf(class).Condemns
}

func classOfCode(code int) xid.Class {
	if r, ok := xid.Lookup(code); ok {
		return r.Class
	}
	return xid.Unknown
}

// classOfSwitch returns an SXID's class: the driver's own severity outranks the table.
func classOfSwitch(x *report.XID) xid.Class {
	class := xid.Unlisted
	if x.Code != nil {
		if r, ok := xid.LookupSwitch(*x.Code); ok {
			class = r.Class
		}
	}
	switch {
	case x.Severity == "Fatal" && class != xid.AlwaysFatal:
		return xid.Fatal
	case x.Severity == "Non-fatal":
		return xid.Nonfatal
	}
	return class
}

// scopeOf returns the scope that takes no new work while the driver requests an action.
func scopeOf(a report.Action) xid.Scope {
	return cmp.Or(map[report.Action]xid.Scope{
		report.ActionNone: xid.None, report.ActionRecoverIMEX: xid.None, // the latter is of the whole domain
		report.ActionReset: xid.GPU, report.ActionDrainP2P: xid.GPU, report.ActionDrainAndReset: xid.GPU,
		report.ActionReboot: xid.Node,
	}[a], xid.Undecided)
}

// gpuValues returns the fields of a GPU of a sample.
func gpuValues(g *report.GPU) Values {
	v := Values{"index": {Of: int64(g.Index)}, "lost": {Of: g.Lost()}}
	v.text("uuid", g.UUID)
	v.text("pci", g.PCI)
	v.text("name", g.Name)
	for _, s := range report.Signals() {
		name := string(s.Signal)
		r, there := g.Signals[s.Signal]
		if !there {
			v[name] = Value{Failed: "was not measured"}
			continue
		}
		of, why := answer(r, s)
		if of != nil || why != "" {
			v[name] = Value{Of: of, Failed: why}
		}
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
		return nil, fmt.Sprintf("could not be read: NVML's return code %d", r.Failed)
	}
	return nil, "was not measured: " + r.String()
}
