package world

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// ResolverAtFault reports whether a failed look-up is the fault of a resolver on the asking machine itself: nothing
// listens there, or all servers that it asks, or another one that this machine may ask, have an address.
func ResolverAtFault(c *hop.Case, f *diag.Fact) bool {
	if reading.NoResolver(f) {
		return true
	}
	if !reading.OwnResolver(f) {
		return false
	}
	for i := range reading.MaxServers {
		if other := hop.RequestOf(c, f.ID, reading.NameServerCounter(i)); other != nil && other.All(passing(c, f.ID)) {
			return true
		}
	}
	return len(f.DNS.Behind) > 0 && !slices.ContainsFunc(f.DNS.Behind,
		func(a diag.DNSAnswer) bool { return !reading.Knows(a) })
}

// turns is about the step's own look-up, whichever of its requests is in doubt.
func turns(d *doubted) string {
	step, _, _ := hop.SplitID(d.fact.ID)
	if words := reading.TurnsDiffer(d.c.FactByID(step)); words != "" {
		return "the name servers of the " + d.fact.Vantage + " take turns and do not agree: " + words
	}
	return ""
}
