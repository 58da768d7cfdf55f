package hop

import (
	"slices"
	"sync"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Chain is a chain: hops in their order, whose steps are numbered. It never changes.
type Chain struct {
	list  []Hop
	ids   []diag.HopID // of list
	names [][]string   // of the steps of each hop: a look-up reads little memory
	first []int        // number of each hop's first step
	steps int          // number of steps

	// lean is the chain without its optional hops
	lean func() *Chain

	// Declared makes the hop of a check that a plan has; nil: the chain has none but its own.
	Declared func(diag.HopID, *diag.Check) Hop
}

// Of returns the chain by which a plan was made: with the checks and the optional hops that the plan has.
func (h *Chain) Of(p *diag.Plan) *Chain {
	has, lacks := h.optional(p)
	switch {
	case lacks && !has:
		return h.lean().Of(p)
	case lacks:
		h = h.without(func(k *Hop) bool { return k.Optional && !planned(p, k.ID) })
	}
	return h.withChecks(p)
}

// optional reports whether a plan has optional hops of the chain, and whether it lacks some.
func (h *Chain) optional(p *diag.Plan) (has, lacks bool) {
	for i := range h.list {
		if k := &h.list[i]; k.Optional && planned(p, k.ID) {
			has = true
		} else if k.Optional {
			lacks = true
		}
	}
	return has, lacks
}

func planned(p *diag.Plan, id diag.HopID) bool {
	return slices.ContainsFunc(p.Hops, func(row diag.PlannedHop) bool { return row.ID == id })
}

// without returns the chain without some of its hops.
func (h *Chain) without(leave func(*Hop) bool) *Chain {
	var list []Hop
	for i := range h.list {
		if k := &h.list[i]; !leave(k) {
			list = append(list, *k)
		}
	}
	chain := NewChain(list)
	chain.Declared = h.Declared
	return chain
}

func (h *Chain) withChecks(p *diag.Plan) *Chain {
	same := true
	for i := range p.Hops {
		if row := &p.Hops[i]; row.Check != nil && In(h.list, row.ID).Check != row.Check {
			same = false
		}
	}
	if same || h.Declared == nil {
		return h
	}
	list := slices.DeleteFunc(slices.Clone(h.list), func(k Hop) bool { return k.Check != nil })
	for i := range p.Hops {
		if row := &p.Hops[i]; row.Check != nil && row.ID.Own() && Position(list, row.ID) == len(list) {
			list = append(list, h.Declared(row.ID, row.Check))
		}
	}
	chain := NewChain(list)
	chain.Declared = h.Declared
	return chain
}

// List returns the hops in their order. Callers must not modify them.
func (h *Chain) List() []Hop { return h.list }

// NewChain returns the chain of these hops.
func NewChain(list []Hop) *Chain {
	h := &Chain{list: list}
	h.lean = sync.OnceValue(func() *Chain { return h.without(func(k *Hop) bool { return k.Optional }) })
	for i := range h.list {
		hop := &h.list[i]
		hop.Closure = slices.Clip(explainers(h.list, hop.ID))
		hop.Steps = slices.Clone(hop.Steps) // own hops may be in several chains
		var names []string
		h.ids, h.first = append(h.ids, hop.ID), append(h.first, h.steps)
		for k := range hop.Steps {
			names = append(names, hop.Steps[k].Name)
			hop.Steps[k].number = h.steps
			h.steps++
		}
		h.names = append(h.names, names)
	}
	return h
}

// step returns the indices of a hop and its step; -1 if the chain does not have it.
func (h *Chain) step(id diag.HopID, name string) (at, step int) {
	if at = slices.Index(h.ids, id); at < 0 {
		return -1, -1
	}
	return at, slices.Index(h.names[at], name)
}

// Hop returns the chain's hop with this id, or an empty hop.
func (c *Case) Hop(id diag.HopID) *Hop {
	if i := slices.Index(c.Chain.ids, id); i >= 0 {
		return &c.Chain.list[i]
	}
	return &Hop{ID: id}
}

// HopsThrough returns the ids of the chain from a to b, both included.
func HopsThrough(a, b diag.HopID) []diag.HopID {
	ids := diag.HopIDs()
	return slices.Clip(ids[slices.Index(ids, a) : slices.Index(ids, b)+1])
}

// Closure lists every hop that may explain a failure of id, directly or through others; never id itself.
func Closure(chain []Hop, id diag.HopID) []diag.HopID { return In(chain, id).Closure }

// explainers computes the closure of a hop.
func explainers(chain []Hop, id diag.HopID) []diag.HopID {
	all := []diag.HopID{id}
	for i := 0; i < len(all); i++ {
		for _, e := range In(chain, all[i]).ExplainedBy {
			if !slices.Contains(all, e) {
				all = append(all, e)
			}
		}
	}
	return all[1:]
}
