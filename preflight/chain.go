package preflight

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Hops is a chain: hops in their order, with an index of their steps. It never changes.
type Hops struct {
	list   []Hop
	bySlot [slots][]chainStep // hash buckets, see slot
	steps  int                // number of steps
}

// List returns the hops in their order. Callers must not modify them.
func (h *Hops) List() []Hop { return h.list }

// NewHops returns the chain of these hops.
func NewHops(list []Hop) *Hops {
	h := &Hops{list: list}
	for i := range h.list {
		h.list[i].closure = slices.Clip(explainers(h.list, h.list[i].ID))
		h.list[i].Steps = slices.Clone(h.list[i].Steps) // own hops may be in several chains
	}
	h.number()
	return h
}

// chainStep is a step and its hop, with copies of their names, so that a look-up reads no other memory.
type chainStep struct {
	id   diag.HopID
	name string
	n    int // the step's number
	hop  *Hop
	step *Step
}

// slot is the hash of a step: lengths and the last letter distinguish nearly all steps.
func slot(hop diag.HopID, step string) uint {
	if step == "" {
		return 0
	}
	return (3*uint(len(hop)) + 16*uint(len(step)) + uint(step[len(step)-1])) % slots
}

const slots = 128

// number numbers the steps of the chain, and fills bySlot.
func (h *Hops) number() {
	for i := range h.list {
		hop := &h.list[i]
		for k := range hop.Steps {
			s := &hop.Steps[k]
			at := slot(hop.ID, s.Name)
			h.bySlot[at] = append(h.bySlot[at], chainStep{hop.ID, s.Name, h.steps, hop, s})
			s.number = h.steps
			h.steps++
		}
	}
}

// step returns a step of the chain; nil if the chain does not have it.
func (h *Hops) step(hop diag.HopID, step string) *chainStep {
	in := h.bySlot[slot(hop, step)]
	for i := range in {
		if s := &in[i]; s.name == step && s.id == hop {
			return s
		}
	}
	return nil
}

// hop returns the chain's hop with this id, or an empty hop.
func (c *Case) hop(id diag.HopID) *Hop { return hopIn(c.chain.list, id) }

// hopsThrough returns the ids of the chain from a to b, both included.
func hopsThrough(a, b diag.HopID) []diag.HopID {
	ids := diag.HopIDs()
	return slices.Clip(ids[slices.Index(ids, a) : slices.Index(ids, b)+1])
}

// closure lists every hop that may explain a failure of id, directly or through others; never id itself.
func closure(chain []Hop, id diag.HopID) []diag.HopID { return hopIn(chain, id).closure }

// explainers computes the closure of a hop.
func explainers(chain []Hop, id diag.HopID) []diag.HopID {
	all := []diag.HopID{id}
	for i := 0; i < len(all); i++ {
		for _, e := range hopIn(chain, all[i]).ExplainedBy {
			if !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	return all[1:]
}
