package verdict

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// verifies returns the walk that proves the repair of a root: the hops of its signal, and every hop that the blame
// rests on. On the facts of this walk it reaches the same blame: with fewer hops it could pass, or blame something
// else, while the fault is in force. Where another hop's facts tell the cause, it walks that hop or the whole chain.
func verifies(p diag.RepairProof, r root, v *diag.Verdict, c *hop.Case) diag.RepairProof {
	ids := append(slices.Clone(p.Hops), r.hop.ID)
	for _, fact := range r.finding.Evidence {
		ids = append(ids, hop.OfFact(fact))
	}
	if v.Proof != nil {
		ids = append(ids, hop.OfFact(v.Proof.Failing), hop.OfFact(v.Proof.Passing))
	}
	if v.Observation != nil {
		ids = append(ids, hop.OfFact(v.Observation.Fact))
	}
	chain := c.Chain.List()
	inChainOrder(chain, ids)
	p.Hops = redWith(c, slices.Compact(ids), r)
	walked := hop.WithNeeds(chain, p.Hops, true)
	if len(p.Hops) == 0 {
		walked = diag.HopIDs()
	}
	p.Allocation = c.Subject.AllocationID != "" && slices.ContainsFunc(walked,
		func(id diag.HopID) bool { return c.Hop(id).Allocation })
	return p
}

// redWith returns ids if a walk of these reaches the blame of r on the facts of this walk, else ids and the first hop
// with which it does; nil, which is the whole chain, if it takes more than one.
func redWith(c *hop.Case, ids []diag.HopID, r root) []diag.HopID {
	if staysRed(c, ids, r) {
		return ids
	}
	chain := c.Chain.List()
	for i := range chain {
		if slices.Contains(ids, chain[i].ID) {
			continue
		}
		more := append(slices.Clone(ids), chain[i].ID)
		inChainOrder(chain, more)
		if staysRed(c, more, r) {
			return more
		}
	}
	return nil
}

// staysRed reports whether a walk with --only reaches the blame of r on the facts of this walk.
func staysRed(c *hop.Case, only []diag.HopID, r root) bool {
	return blameOfPart(c, hop.WithNeeds(c.Chain.List(), only, true)) == named{r.hop.ID, r.finding.Signal}
}

// blameOfPart returns the blame that Decide comes to for a walk of these hops alone. It judges all of them again, since
// their judges may read facts of any other hop, and stops at the blame, which is the first root: proof, reason and
// advice follow from the roots and do not change them. Only without a root, as in a walk that passes, may the reason
// give the blame.
func blameOfPart(c *hop.Case, walked []diag.HopID) named {
	chain, part := c.Chain.List(), c.Only(walked)
	hops := Assess(chain, part)
	promoted := promote(hops, part)
	if roots := rootsOf(chain, hops, promoted, part); len(roots) > 0 {
		return named{roots[0].hop.ID, roots[0].finding.Signal}
	}
	if v, _, _ := decided(chain, hops, promoted, part); v.Blame != nil {
		return named{v.Blame.Hop, v.Blame.Signal}
	}
	return named{}
}
