package verdict

import (
	"cmp"
	"iter"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// root is one fault: a failing finding that no other hop explains, and the hops that it explains. A silent root is a
// hop that got no answer: it is not known to have failed, but later failures may follow from it.
type root struct {
	hop      diag.HopResult
	finding  diag.Finding
	symptoms []diag.HopID
	silent   bool
	promoted bool // it was a warning, see promote
}

// rootsOf folds failing findings under those that explain them, and returns the rest in chain order, the silent ones
// last. A finding is explained by a hop that it needs and that did not answer, by a failing hop in the closure of
// ExplainedBy (unless the finding is Direct), or by an earlier finding with the same culprit. If nothing failed, the
// first hop that did not answer is the only root.
func rootsOf(chain []hop.Hop, hops []diag.HopResult, promoted promotions, c *hop.Case) []root {
	f := folding{
		chain: chain, failing: map[diag.HopID]bool{}, folded: map[diag.HopID]bool{}, behind: map[diag.HopID]diag.HopID{},
		promoted: promoted, warned: map[diag.HopID][]diag.HopID{},
	}
	for i := range hops {
		for finding := range FindingsOf(&hops[i]) {
			if failed(hops[i]) && finding.Status == diag.StatusFail && !promoted.promoted(hops[i].ID, finding) {
				f.failing[hops[i].ID] = true
			}
		}
	}
	silent, erring := unanswered(hops, c), erring(hops, c)
	for i := range hops {
		h := &hops[i]
		if h.Status != diag.StatusFail {
			continue
		}
		for finding := range FindingsOf(h) {
			if finding.Status != diag.StatusFail {
				continue
			}
			explain := silent
			if !slices.Contains(erring, h.ID) && !sharesCulprit(hops, erring, finding) {
				explain = append(slices.Clip(silent), erring...)
			}
			f.fold(h, *finding, explainer(chain, h, finding, explain, c))
		}
	}
	f.attach(chain, hops)
	return append(f.roots, f.silences(hops, silent, c)...)
}

// sharesCulprit reports whether the finding has the culprit of one of the hops: then it is part of the same fault, of
// which the first hop in chain order is to blame, and none of them explains it.
func sharesCulprit(hops []diag.HopResult, ids []diag.HopID, f *diag.Finding) bool {
	return f.Culprit != "" && slices.ContainsFunc(hops, func(h diag.HopResult) bool {
		return slices.Contains(ids, h.ID) && h.Culprit == f.Culprit
	})
}

// FindingsOf yields all findings of a hop, the primary one first.
func FindingsOf(h *diag.HopResult) iter.Seq[*diag.Finding] {
	return func(yield func(*diag.Finding) bool) {
		if !yield(&h.Finding) {
			return
		}
		for i := range h.Also {
			if !yield(&h.Also[i]) {
				return
			}
		}
	}
}

// folding is the state of rootsOf: the roots so far, and the hops whose findings something else explains.
type folding struct {
	chain   []hop.Hop
	roots   []root
	failing map[diag.HopID]bool
	folded  map[diag.HopID]bool       // hops with a finding that a failing hop explains
	behind  map[diag.HopID]diag.HopID // hops with a finding that a silent or erring hop explains, and which one

	promoted promotions
	warned   map[diag.HopID][]diag.HopID // by the hop of a warning, the hops with a finding that it explains
}

// fold makes a failing finding a new root, or attributes it to the silent hop, to the failing hop that explains it, or
// to a root with the same culprit.
func (f *folding) fold(h *diag.HopResult, finding diag.Finding, silent diag.HopID) {
	same := func(r root) bool { return finding.Culprit != "" && r.finding.Culprit == finding.Culprit }
	switch {
	case silent != "":
		f.behind[h.ID] = silent
		return
	case !finding.Direct && slices.ContainsFunc(hop.Closure(f.chain, h.ID),
		func(id diag.HopID) bool { return f.failing[id] }):
		f.folded[h.ID] = true
		return
	}
	if by := f.promoted.explains(h.ID, &finding); by != "" {
		f.warned[by] = append(f.warned[by], h.ID)
		return
	}
	if i := slices.IndexFunc(f.roots, same); i >= 0 {
		r, symptom := &f.roots[i], h.ID
		// The finding that shows the unstable network replaces one that may follow from it.
		if finding.Signal == diag.SigNetworkUnstable && r.finding.Signal != finding.Signal {
			symptom, r.hop, r.finding = r.hop.ID, *h, finding
		}
		if r.hop.ID != symptom {
			r.symptoms = append(r.symptoms, symptom)
		}
		return
	}
	f.roots = append(f.roots, root{hop: *h, finding: finding, promoted: f.promoted.promoted(h.ID, &finding)})
}

// attach adds every folded hop to the symptoms of the first root that explains it. Without such a root, the hop is
// attributed to the silent hop that explains its closure.
func (f *folding) attach(chain []hop.Hop, hops []diag.HopResult) {
	for k := range hops {
		h := &hops[k]
		if !f.folded[h.ID] {
			continue
		}
		may := hop.Closure(f.chain, h.ID)
		i := slices.IndexFunc(f.roots, func(r root) bool { return slices.Contains(may, r.hop.ID) })
		if i < 0 { // what explains it is itself a part of another root, by its culprit
			i = slices.IndexFunc(f.roots, func(r root) bool {
				return slices.ContainsFunc(r.symptoms, func(id diag.HopID) bool { return slices.Contains(may, id) })
			})
		}
		if i >= 0 {
			f.roots[i].symptoms = append(f.roots[i].symptoms, h.ID)
			continue
		}
		for _, id := range hop.Closure(f.chain, h.ID) {
			if by := f.behind[id]; by != "" && f.behind[h.ID] == "" {
				f.behind[h.ID] = by
			}
		}
	}
	for k := range hops {
		by := f.behind[hops[k].ID]
		i := slices.IndexFunc(f.roots, func(r root) bool { return r.hop.ID == by || slices.Contains(r.symptoms, by) })
		if i >= 0 {
			f.roots[i].symptoms = append(f.roots[i].symptoms, hops[k].ID)
		}
	}
	for i := range f.roots {
		if r := &f.roots[i]; r.promoted {
			r.symptoms = append(r.symptoms, f.warned[r.hop.ID]...)
		}
		inChainOrder(chain, f.roots[i].symptoms)
		f.roots[i].symptoms = slices.Compact(f.roots[i].symptoms)
	}
}

// silences returns a root with its symptoms for each silent hop that explains a failure or, if nothing failed, for the
// first silent hop.
func (f *folding) silences(hops []diag.HopResult, silent []diag.HopID, c *hop.Case) []root {
	var roots []root
	for i := range hops {
		h := &hops[i]
		if !slices.Contains(silent, h.ID) {
			continue
		}
		r := root{hop: *h, finding: unheard(h, c), silent: true}
		for _, s := range hops {
			if f.behind[s.ID] == h.ID {
				r.symptoms = append(r.symptoms, s.ID)
			}
		}
		if len(r.symptoms) > 0 || (!slices.ContainsFunc(hops, failed) && len(roots) == 0) {
			roots = append(roots, r)
		}
	}
	return roots
}

func failed(h diag.HopResult) bool { return h.Status == diag.StatusFail }

func inChainOrder(chain []hop.Hop, ids []diag.HopID) {
	slices.SortFunc(ids, func(a, b diag.HopID) int { return cmp.Compare(hop.Position(chain, a), hop.Position(chain, b)) })
}
