package world

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// AddressWarnings warns of an address of a name that does not answer beside one that does, at the first hop of the
// chain that measured it from that vantage. A host without a route for a family does not use it, which is not a fault.
func AddressWarnings(h *hop.Hop, c *hop.Case) []diag.Finding {
	var out []diag.Finding
	for i := range h.Steps {
		f := c.Fact(h.ID, h.Steps[i].Name)
		if !h.Steps[i].Policy.BothFamilies || f == nil {
			continue
		}
		for _, k := range reading.OtherAddresses(c, h.ID, h.Steps[i].Name) {
			lossy := reading.GotNoAnswer(k) && LossSeen(c, k.Vantage) != "" // a single silence there does not count
			if !reading.RefusesFamily(k) || lossy || reading.WarnedBefore(h.ID, c, f, k) {
				continue
			}
			dead, alive := k.Request.Resolve, reading.RemoteIP(f)
			w := reading.Warn("", k, "the %s address %s of %s does not answer (%s), its %s address %s does%s",
				reading.Family(dead), dead, f.DNS.Name, reading.Saw(k), reading.Family(alive), alive, reading.FamilyCost(f, dead))
			w.Evidence, w.Culprit = append(w.Evidence, f.ID), ""
			out = append(out, w)
		}
	}
	return out
}

// strayFamily: f fails at one address family only, while the name's other one passes.
func strayFamily(d *doubted) string {
	q := hop.RequestOf(d.c, d.fact.ID, reading.CounterOtherFamily)
	if !d.fails() || q == nil || q.First().Request.Op != d.fact.Request.Op || !q.All(passing(d.c, d.fact.ID)) {
		return ""
	}
	used, other := reading.RemoteIP(d.fact), q.First().Request.Resolve
	return fmt.Sprintf("; this is at its %s address %s; at its %s address %s the request passes", reading.Family(used),
		used, reading.Family(other), other)
}
