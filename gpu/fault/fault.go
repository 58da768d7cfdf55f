// Package fault counts each fault of a GPU once. The driver prints several lines about one fault, and NVML reports it
// as well; this package finds what belongs together. It judges nothing, and changes no event: events stay what each
// source has reported, so that a source that comes late, or never, changes nothing but who saw the fault.
package fault

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// Apart is how far apart the times may be that the kernel log and NVML have for one fault: the kernel's is converted to
// the wall clock, and NVML's is when the event was received.
const Apart = 3 * time.Second

// fallenOff is the XID of a GPU that has fallen off the bus, which the kernel log may have without a code.
const fallenOff = 79

// Fault is one fault, or several equal ones that were counted together.
type Fault struct {
	// Event has what all sources report about it: process and text from the kernel log, the GPU's index and UUID from
	// NVML. It was not reported by a node as it is.
	report.Event
	Sources []report.Source // who saw it
	Numbers []int           // of the events about it, from 0, ascending
	Places  []string        // parts of the hardware that it names, see kmsg.Places
}

// Since is when the first of the counted faults was reported; At is when the last one was.
func (f *Fault) Since() time.Time {
	if f.XID != nil && f.XID.Since != nil && f.XID.Since.Before(f.At) {
		return *f.XID.Since
	}
	return f.At
}

// Merge returns the faults that events are about, by their first event. Events about a sample, the probe or coverage
// are of no fault; a change of the recovery action is one of its own. complete adds to the identity of a GPU what is
// known of it from elsewhere, such as the UUID of its PCI address. The result does not depend on the order in which the
// sources came, as far as their times are known.
func Merge(events []report.Event, complete func(report.Identity) report.Identity) []Fault {
	m := merger{events: events, complete: complete, groups: map[group][]*Fault{}}
	m.kernel()
	for i := range events {
		if e := &events[i]; e.Action != nil || (e.XID != nil && e.Source != report.FromKernelLog) {
			m.add(i)
		}
	}
	m.pair()
	var all []Fault
	for _, f := range m.faults {
		if len(f.Numbers) > 0 {
			slices.Sort(f.Numbers)
			all = append(all, *f)
		}
	}
	// package sort: each generic sort of a struct is 14 KB of the agent's program
	sort.SliceStable(all, func(i, j int) bool { return all[i].Numbers[0] < all[j].Numbers[0] })
	for i := range all {
		if x := all[i].XID; x != nil && x.Code != nil {
			all[i].Places = kmsg.Places(*x.Code, x.Text)
		}
	}
	return all
}

// merger is the state of one Merge.
type merger struct {
	events   []report.Event
	complete func(report.Identity) report.Identity
	faults   []*Fault
	groups   map[group][]*Fault
}

// group is what two reports of one fault have in common.
type group struct {
	boot, gpu string
	code      int
}

// add adds an event as a fault.
func (m *merger) add(i int) *Fault {
	f := &Fault{Event: m.events[i], Numbers: []int{i}, Sources: []report.Source{m.events[i].Source}}
	id := m.complete(f.Of())
	f.GPU = &id
	if f.XID != nil {
		x := *f.XID
		f.XID = &x
	}
	m.faults = append(m.faults, f)
	if g, ok := groupOf(f); ok {
		m.groups[g] = append(m.groups[g], f)
	}
	return f
}

// groupOf returns the group of an XID; ok is false for a fault that only one source reports, or of an unknown GPU.
func groupOf(f *Fault) (g group, ok bool) {
	if f.XID == nil || (f.Type != report.XIDEvent && f.Type != report.LostEvent) {
		return g, false
	}
	g = group{boot: cmp.Or(f.BootID, f.XID.BootID), gpu: strings.ToLower(f.GPU.PCI), code: fallenOff}
	if g.gpu == "" && f.GPU.UUID != "" {
		g.gpu = "uuid " + f.GPU.UUID
	}
	if f.XID.Code != nil {
		g.code = *f.XID.Code
	}
	return g, g.gpu != ""
}

// kernel adds the events of the kernel log. Those that the agent of an earlier version reported line by line, or that
// two readings have parted, are one fault here.
func (m *merger) kernel() {
	var order []int
	for i := range m.events {
		if e := &m.events[i]; e.XID != nil && e.Source == report.FromKernelLog {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(i, j int) bool {
		a, b := &m.events[order[i]], &m.events[order[j]]
		return cmp.Or(strings.Compare(a.BootID, b.BootID), compare(a.XID.Record, b.XID.Record), a.At.Compare(b.At)) < 0
	})
	var joiner kmsg.Joiner
	open := map[int]*Fault{}
	for _, i := range order {
		e := &m.events[i]
		if e.XID.Times > 1 { // several faults, each with all of its lines
			m.add(i)
			continue
		}
		id, whole, more := joiner.Add(lineOf(e), time.Duration(e.At.UnixNano()))
		if f := open[id]; more && f != nil {
			f.Numbers = append(f.Numbers, i)
			f.absorb(&whole)
			continue
		}
		open[id] = m.add(i)
	}
}

func compare[T cmp.Ordered](a, b *T) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Compare(*a, *b)
}

// pair finds the faults that both the kernel log and NVML have reported. Each report of NVML is of at most one fault,
// and a fault has at most one; the others stay faults of their own.
func (m *merger) pair() {
	for _, all := range m.groups {
		var log, nvml []*Fault
		for _, f := range all {
			switch f.Source {
			case report.FromKernelLog:
				log = append(log, f)
			case report.FromNVML:
				nvml = append(nvml, f)
			}
		}
		if len(log) == 0 || len(nvml) == 0 {
			continue
		}
		slices.SortStableFunc(log, before)
		slices.SortStableFunc(nvml, before)
		room := map[*Fault]int64{}
		for _, f := range log {
			room[f] = f.XID.Times
		}
		for _, same := range [...]func(a, b *report.Identity) bool{sameInstance, mayBeSame} {
			pairAll(log, nvml, room, same)
		}
	}
}

// before orders faults by time, and equal times by what they are.
func before(a, b *Fault) int {
	return cmp.Or(a.Since().Compare(b.Since()), a.At.Compare(b.At), compare(a.XID.Record, b.XID.Record),
		compare(a.GPU.GPUInstance, b.GPU.GPUInstance), compare(a.XID.PID, b.XID.PID), cmp.Compare(a.XID.Text, b.XID.Text))
}

// pairAll pairs each report of NVML with the first fault of the log that has room for it. room is how many reports of
// NVML a fault of the log may still have.
func pairAll(log, nvml []*Fault, room map[*Fault]int64, same func(a, b *report.Identity) bool) {
	first := 0
	for _, n := range nvml {
		for first < len(log) && (room[log[first]] == 0 || endsBefore(log[first], n)) {
			first++
		}
		for _, k := range log[first:] {
			if n.XID.Times == 0 || k.Since().After(n.At.Add(Apart)) {
				break
			}
			if room[k] == 0 || endsBefore(k, n) || !same(k.GPU, n.GPU) {
				continue
			}
			times := min(room[k], n.XID.Times)
			room[k] -= times
			n.XID.Times -= times
			k.saw(n)
		}
		if n.XID.Times == 0 {
			n.Numbers = nil
		}
	}
}

// endsBefore reports whether a fault of the log was too long before a report of NVML. The reports come by time, so it
// is then of no later one either.
func endsBefore(k, n *Fault) bool { return k.At.Add(Apart).Before(n.Since()) }

// sameInstance reports whether both are of the same MIG instance, or of the whole GPU.
func sameInstance(a, b *report.Identity) bool {
	return compatible(a.UUID, b.UUID) && same(a.GPUInstance, b.GPUInstance) && same(a.ComputeInstance, b.ComputeInstance)
}

// mayBeSame is sameInstance where one of them does not name an instance.
func mayBeSame(a, b *report.Identity) bool {
	return compatible(a.UUID, b.UUID) && (a.GPUInstance == nil || b.GPUInstance == nil ||
		(*a.GPUInstance == *b.GPUInstance && (a.ComputeInstance == nil || b.ComputeInstance == nil)))
}

func compatible(a, b string) bool { return a == "" || b == "" || a == b }

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// saw adds NVML's report of the same fault.
func (f *Fault) saw(n *Fault) {
	if !slices.Contains(f.Sources, n.Source) {
		f.Sources = append(f.Sources, n.Source)
	}
	f.Numbers = append(f.Numbers, n.Numbers...)
	id := *f.GPU
	id.UUID, id.PCI, id.Name = cmp.Or(id.UUID, n.GPU.UUID), cmp.Or(id.PCI, n.GPU.PCI), cmp.Or(id.Name, n.GPU.Name)
	id.Index = cmp.Or(id.Index, n.GPU.Index)
	id.GPUInstance = cmp.Or(id.GPUInstance, n.GPU.GPUInstance)
	id.ComputeInstance = cmp.Or(id.ComputeInstance, n.GPU.ComputeInstance)
	f.GPU = &id
	if f.Type == report.LostEvent { // NVML has the code
		f.Type, f.XID.Code = n.Type, n.XID.Code
	}
}
