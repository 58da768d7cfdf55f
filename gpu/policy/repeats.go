package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/gpu/fault"
)

// Repeats count how often one code of one GPU was reported, at which parts of the hardware, and by how many processes.
// The same place again and again, whatever runs, points to the hardware; many places, or one program, to the program.
type repeats struct {
	groups []*repeated // by their first fault
}

// Limits: places and processes that are told apart in one group.
const maxApart = 64

// suspicious is how often an error must come before where it came from says something.
const suspicious = 3

// repeated are the faults of one code of one GPU or MIG instance.
type repeated struct {
	kind, gpu string
	code      int
	total     int64
	spread    bool // a fault names several places, or there are more than are counted
	placed    int64
	places    map[string]*counted
	processes map[string]bool
}

// counted is one place.
type counted struct {
	times     int64
	processes map[string]bool
}

// groupOf returns the group of a fault; nil if it has no code, or no GPU is known.
func (r *repeats) groupOf(of *fault.Fault) *repeated {
	id := of.GPU
	if of.XID == nil || of.XID.Code == nil || id.PCI+id.UUID == "" {
		return nil
	}
	name := cmp.Or(id.PCI, id.UUID)
	if id.GPUInstance != nil {
		name += fmt.Sprint(", MIG instance ", *id.GPUInstance)
	}
	i := slices.IndexFunc(r.groups, func(g *repeated) bool {
		return g.kind == string(of.Type) && g.gpu == name && g.code == *of.XID.Code
	})
	if i >= 0 {
		return r.groups[i]
	}
	g := &repeated{kind: string(of.Type), gpu: name, code: *of.XID.Code, places: map[string]*counted{},
		processes: map[string]bool{}}
	r.groups = append(r.groups, g)
	return g
}

// add counts a fault.
func (r *repeats) add(of *fault.Fault) {
	g := r.groupOf(of)
	if g == nil {
		return
	}
	g.total += of.XID.Times
	who := ""
	if of.XID.PID != nil {
		who = fmt.Sprint(*of.XID.PID, " ", of.XID.Process)
	}
	remember(g.processes, who)
	g.spread = g.spread || len(of.Places) > 1 || len(g.places) == maxApart
	if len(of.Places) != 1 || len(g.places) == maxApart {
		return
	}
	times := of.XID.Times
	if of.XID.Folded { // the others may have been elsewhere
		times = 1
	}
	at := g.places[of.Places[0]]
	if at == nil {
		at = &counted{processes: map[string]bool{}}
		g.places[of.Places[0]] = at
	}
	g.placed += times
	at.times += times
	remember(at.processes, who)
}

func remember(all map[string]bool, who string) {
	if who != "" && len(all) < maxApart {
		all[who] = true
	}
}

// values adds the fields of a fault that come from its repeats.
func (r *repeats) values(v Values, of *fault.Fault) {
	g := r.groupOf(of)
	if g == nil || len(of.Places) == 0 {
		return
	}
	n := len(of.Places)
	v.number("places", &n)
	at := g.places[of.Places[0]]
	if n > 1 || at == nil {
		return
	}
	v.text("place", of.Places[0])
	v["times_at_place"] = Value{Of: at.times}
	v["processes_at_place"] = Value{Of: int64(len(at.processes))}
}

// notes has a note for each error that came several times, and named its place each time.
func (r *repeats) notes() (all []string) {
	for _, g := range r.groups {
		if g.total < 2 || g.placed == 0 || (g.placed < g.total && !g.spread) {
			continue
		}
		words := fmt.Sprintf("%s: %s %d came %d times", g.gpu, strings.ToUpper(g.kind), g.code, g.total)
		one := len(g.places) == 1 && !g.spread
		if one {
			for place := range g.places {
				words += ", each at " + place
			}
		} else {
			words += ", at different places"
		}
		switch n := len(g.processes); {
		case n == 0:
		case n == 1:
			words += ", by one process"
		default:
			words += fmt.Sprintf(", by %d processes", n)
		}
		switch {
		case g.total < suspicious || len(g.processes) == 0:
		case one && len(g.processes) > 1:
			words += ": suspect the hardware"
		case !one || len(g.processes) == 1:
			words += ": suspect the program"
		}
		all = append(all, words)
	}
	return all
}
