package policy

import (
	"strings"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/xid"
)

// Type is the type of a field in a condition.
type Type string

// Types of fields.
const (
	Int  Type = "int"
	Bool Type = "bool"
	Text Type = "string"
)

// Field is something that a condition may use, such as event.code or gpu.temperature.
type Field struct {
	About About
	Name  string
	Type  Type
	Words []string // all possible values, if known: a condition with any other is refused
	Means string
}

// Fields is the table of fields for conditions. It includes all of package report's signals of a GPU that are not
// private, so a new signal needs no row here.
func Fields() []Field {
	all := []Field{
		{AboutEvent, "type", Text, eventTypes(), "what was reported"},
		{AboutEvent, "code", Int, nil, "of an XID or SXID"},
		{AboutEvent, "class", Text, classes(), "this project's class of the code; of an error that follows another one the " +
			"class of that one, where the driver names it"},
		{AboutEvent, "condemns", Text, scopes(), "what takes no new work, by that class, which the driver's own words " +
			"make worse, and by the action of an XID 154"},
		{AboutEvent, "caused_by", Int, nil, "the XID that caused this one, as the driver itself reports"},
		{AboutEvent, "root", Int, nil, "caused_by where the driver names it, else code"},
		{AboutEvent, "recovery_action", Text, actions(), "the action that the driver now asks for, of a recovery_action " +
			"event and of an XID 154"},
		{AboutEvent, "severity", Text, []string{kmsg.Fatal, kmsg.Nonfatal, kmsg.AlwaysFatal}, "the driver's word, of an " +
			"SXID and of an NVLink 5 error (XID 144 to 150)"},
		{AboutEvent, "reset", Text, []string{kmsg.ResetNone, kmsg.ResetGPU, kmsg.ResetDrain, kmsg.ResetUnknown}, "the " +
			"driver's word about a reset in a memory error (XID 94, 95): RST, or D-RST once the present work has ended"},
		{AboutEvent, "injected", Bool, nil, "the driver marks the error as injected for a test"},
		{AboutEvent, "link", Int, nil, "the NVLink of the GPU or switch"},
		{AboutEvent, "unit", Text, nil, "of an NVLink 5 error: what reported it, as RLW_REMAP"},
		{AboutEvent, "status", Text, nil, "of an NVLink or switch error: registers or status words, which drivers from 575 " +
			"on lay out otherwise"},
		{AboutEvent, "port", Int, nil, "of an SXID: link"},
		{AboutEvent, "times", Int, nil, "how often the same was reported"},
		{AboutEvent, "source", Text, []string{string(report.FromKernelLog), string(report.FromNVML),
			string(report.FromAgent)},
			"who saw it; kernel_log if nvml did as well"},
		{AboutEvent, "text", Text, nil, "the driver's text"},
		{AboutEvent, "place", Text, nil, "the part of the hardware that the text names, if it is one: " +
			"\"GPC 1, TPC 4, SM 0\", \"link 8\", \"partition 5, subpartition 0\", \"row 0xc5aa\""},
		{AboutEvent, "places", Int, nil, "how many such parts the text names"},
		{AboutEvent, "times_at_place", Int, nil, "how often the code was reported of this GPU at event.place"},
		{AboutEvent, "processes_at_place", Int, nil, "by how many processes"},
		{AboutEvent, "pid", Int, nil, "of the process"},
		{AboutEvent, "process", Text, nil, "its name, which a tenant chooses"},
		{AboutEvent, "pci", Text, nil, "PCI address of the GPU or switch"},
		{AboutEvent, "uuid", Text, nil, "of the GPU, where it is known"},
		{AboutEvent, "index", Int, nil, "of the GPU, where it is known"},
		{AboutEvent, "gpu_instance", Int, nil, "of MIG"},
		{AboutEvent, "compute_instance", Int, nil, "of MIG"},

		{AboutNode, "driver", Text, nil, "version of the driver"},
		{AboutNode, "gpus", Int, nil, "GPUs that the driver counts"},
		{AboutNode, "gpus_expected", Int, nil, "GPUs that the node was enrolled with, if configured"},
		{AboutNode, "gpus_lost", Int, nil, "GPUs of the sample that are lost"},

		{AboutGPU, "index", Int, nil, "as the driver counts"},
		{AboutGPU, "uuid", Text, nil, "as the driver names it"},
		{AboutGPU, "pci", Text, nil, "PCI address"},
		{AboutGPU, "name", Text, nil, "of the model"},
		{AboutGPU, "lost", Bool, nil, "any call about it was answered with GPU_IS_LOST, whatever the others were"},
		{AboutGPU, "hw_slowdown", Bool, nil, "the hardware has lowered the clocks, for heat or power or another reason"},
		{AboutGPU, "hw_thermal_slowdown", Bool, nil, "the hardware has, for heat"},
		{AboutGPU, "hw_power_brake", Bool, nil, "the hardware has, because the power supply asked for it"},
		{AboutGPU, "sw_thermal_slowdown", Bool, nil, "the driver has, for heat"},
		{AboutGPU, "nvlinks_down", Int, nil, "NVLinks that it has and that are not active"},
	}
	for _, s := range report.Signals() {
		if s.Signal.Private() { // a judgement quotes what decided
			continue
		}
		f := Field{AboutGPU, string(s.Signal), Int, nil, s.What}
		switch {
		case s.Signal == report.RecoveryAction:
			f.Type, f.Words = Text, actions()
		case s.Unit == "flag":
			f.Type = Bool
		case s.Unit == "text":
			f.Type = Text
		case s.Unit != "":
			f.Means = s.Unit + ": " + f.Means
		}
		all = append(all, f)
	}
	return all
}

func eventTypes() []string {
	return []string{string(report.XIDEvent), string(report.SXIDEvent), string(report.LostEvent),
		string(report.InitEvent), string(report.ResetEvent), string(report.MismatchEvent), string(report.RecoveryEvent)}
}

func actions() []string {
	all := []string{string(report.ActionUnknown)}
	for n := int64(0); report.ActionOf(n) != report.ActionUnknown; n++ {
		all = append(all, string(report.ActionOf(n)))
	}
	return all
}

func classes() (all []string) {
	for _, c := range xid.Classes() {
		all = append(all, string(c.Class))
	}
	return all
}

func scopes() []string {
	return []string{string(xid.None), string(xid.GPU), string(xid.Node), string(xid.Undecided)}
}

// Value is a field's value for one event, GPU or node, or the reason why there is none.
type Value struct {
	Of     any    // int64, bool or string; nil: no value
	Failed string // why an expected value is missing; "" if the event or the GPU does not have the field
}

// Values are the fields of one event, GPU or node by name. A missing field does not apply.
type Values map[string]Value

func (v Values) number(name string, n *int) {
	if n != nil {
		v[name] = Value{Of: int64(*n)}
	}
}

func (v Values) text(name, s string) {
	if s != "" {
		v[name] = Value{Of: strings.ToValidUTF8(s, "?")}
	}
}
