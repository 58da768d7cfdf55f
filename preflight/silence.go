package preflight

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// unanswered lists the hops that are inconclusive because their request got no answer, in chain order.
func unanswered(hops []diag.HopResult, c *Case) []diag.HopID {
	var ids []diag.HopID
	for i := range hops {
		if silentFact(&hops[i], c) != nil && c.hop(hops[i].ID).Silence != nil {
			ids = append(ids, hops[i].ID)
		}
	}
	return ids
}

// silentFact returns the fact of an inconclusive hop that got no answer; nil for any other hop, for one whose judge set
// a signal for what the operator lacked, and for one whose subject changed during the walk.
func silentFact(h *diag.HopResult, c *Case) *diag.Fact {
	if h.Status != diag.StatusInconclusive || h.Signal != "" || h.Lack == diag.LackTime {
		return nil
	}
	for _, s := range h.Steps {
		if s.Status != diag.StatusFail && s.Status != diag.StatusInconclusive {
			continue
		}
		if f := c.fact(s.Fact); f != nil && strings.HasPrefix(s.Fact, string(h.ID)+"/") && noAnswer(f, c.EndedBy) {
			return f
		}
	}
	return nil
}

// explainer returns the first unanswered hop that explains a finding of h; "" if none does. A hop that the failing step
// needs explains any finding; a hop in Behind explains only a finding that shows no fault of its own.
func explainer(chain []Hop, h *diag.HopResult, f *diag.Finding, silent []diag.HopID, c *Case) diag.HopID {
	if len(silent) == 0 {
		return ""
	}
	needs := needsOf(chain, h.ID, f)
	var behind []diag.HopID
	if !ownFault(c, f) {
		behind = hopIn(chain, h.ID).Behind
	}
	for _, id := range silent {
		if id != h.ID && (slices.Contains(needs, id) || slices.Contains(behind, id)) {
			return id
		}
	}
	return ""
}

// needsOf returns the hops without which the finding's deciding step cannot be judged, directly or through others. A
// fact that no step of the chain made counts as all steps of its hop.
func needsOf(chain []Hop, id diag.HopID, f *diag.Finding) []diag.HopID {
	decided := ""
	if len(f.Evidence) > 0 {
		decided, _, _ = strings.Cut(f.Evidence[0], "~")
	}
	var all []diag.HopID
	found := false
	for i := range chain {
		for k := range chain[i].Steps {
			s := &chain[i].Steps[k]
			if s.Uses == "" && factID(chain[i].ID, s.Name) == decided {
				all, found = append(all, s.Needs...), true
			}
		}
	}
	if !found {
		all = stepNeeds(chain, id)
	}
	for i := 0; i < len(all); i++ {
		for _, n := range stepNeeds(chain, all[i]) {
			if !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// stepNeeds returns what the steps of a hop need.
func stepNeeds(chain []Hop, id diag.HopID) []diag.HopID {
	var all []diag.HopID
	for _, s := range hopIn(chain, id).Steps {
		all = append(all, s.Needs...)
	}
	return all
}

// ownFault reports whether the facts show a fault at the finding's own place, which no missing answer elsewhere
// explains: a phase below http failed, a pair of probes proves it, or the platform reports it. A 5xx, and silence or
// a hang-up over a connection that works, do not count: a component that waits for the platform has the same symptoms.
func ownFault(c *Case, f *diag.Finding) bool {
	if len(f.Evidence) == 0 {
		return true
	}
	fact := c.fact(f.Evidence[0])
	if fact == nil {
		return true
	}
	if proof, _, few := prove(c, f.Signal, fact.ID); proof != nil || few {
		return true
	}
	if status(fact) >= 500 || (fact.WS != nil && fact.WS.Status >= 500) || (hungUp(fact) && inPhase(fact, "http")) {
		return false
	}
	if fact.Failure.Silent() {
		return inPhase(fact, "env", "dns", "tcp", "trust", "cert", "tls", "mtls")
	}
	return f.Direct || inPhase(fact, "env", "dns", "tcp", "trust", "cert", "tls", "mtls", "http")
}
