package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
)

// unanswered lists the hops that are inconclusive because their request got no answer, in chain order.
func unanswered(hops []diag.HopResult, c *hop.Case) []diag.HopID {
	var ids []diag.HopID
	for i := range hops {
		if silentFact(&hops[i], c) != nil && c.Hop(hops[i].ID).Silence != nil {
			ids = append(ids, hops[i].ID)
		}
	}
	return ids
}

// silentFact returns the fact of an inconclusive hop that got no answer; nil for any other hop, for one whose judge set
// a signal for what the operator lacked, and for one whose subject changed during the walk.
func silentFact(h *diag.HopResult, c *hop.Case) *diag.Fact {
	if h.Status != diag.StatusInconclusive || h.Signal != "" || h.Lack == diag.LackTime {
		return nil
	}
	for _, s := range h.Steps {
		if s.Status != diag.StatusFail && s.Status != diag.StatusInconclusive {
			continue
		}
		if f := c.FactByID(s.Fact); f != nil && strings.HasPrefix(s.Fact, string(h.ID)+"/") && reading.NoAnswer(f,
			c.EndedBy) && world.Guessed(c, f) == "" {
			return f
		}
	}
	return nil
}

// measuredError makes a failure of a hop that got only a server's error, repeatedly: that is measured, and not silence.
func measuredError(r *diag.HopResult, h *hop.Hop, c *hop.Case) {
	f := silentFact(r, c)
	if f == nil || h.Silence == nil {
		return
	}
	if words := world.ErrsRepeatedly(c, f); words != "" {
		r.Finding = diag.Finding{
			Status: diag.StatusFail, Signal: h.Silence.Signal, Side: h.Silence.Side, Failure: f.Failure,
			Evidence: []string{f.ID}, Culprit: world.CulpritControlPlane,
			Text: fmt.Sprintf("%s got only an error, %s: %s", h.Silence.Request, words, reading.Saw(f)),
		}
	}
}

// erring lists the hops that failed by a server's error, see measuredError: they explain what silent hops would.
func erring(hops []diag.HopResult, c *hop.Case) []diag.HopID {
	var ids []diag.HopID
	for i := range hops {
		h := &hops[i]
		if h.Status != diag.StatusFail || len(h.Evidence) == 0 || c.Hop(h.ID).Silence == nil ||
			h.Signal != c.Hop(h.ID).Silence.Signal {
			continue
		}
		if f := c.FactByID(h.Evidence[0]); f != nil && world.ErrsRepeatedly(c, f) != "" {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

// explainer returns the first unanswered hop that explains a finding of h; "" if none does. A hop that the failing step
// needs explains any finding; a hop in Behind explains only a finding that shows no fault of its own.
func explainer(chain []hop.Hop, h *diag.HopResult, f *diag.Finding, silent []diag.HopID, c *hop.Case) diag.HopID {
	if len(silent) == 0 {
		return ""
	}
	needs := NeedsOf(chain, h.ID, f)
	var behind []diag.HopID
	if !OwnFault(c, f) {
		behind = hop.In(chain, h.ID).Behind
	}
	for _, id := range silent {
		if id != h.ID && (slices.Contains(needs, id) || slices.Contains(behind, id)) {
			return id
		}
	}
	return ""
}

// NeedsOf returns the hops without which the finding's deciding step cannot be judged, directly or through others. A
// fact that no step of the chain made counts as all steps of its hop.
func NeedsOf(chain []hop.Hop, id diag.HopID, f *diag.Finding) []diag.HopID {
	decided := ""
	if len(f.Evidence) > 0 {
		decided, _, _ = strings.Cut(f.Evidence[0], "~")
	}
	var all []diag.HopID
	found := false
	for i := range chain {
		for k := range chain[i].Steps {
			s := &chain[i].Steps[k]
			if s.Uses == "" && hop.FactID(chain[i].ID, s.Name) == decided {
				all, found = append(all, s.Needs.Hops...), true
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
func stepNeeds(chain []hop.Hop, id diag.HopID) []diag.HopID {
	var all []diag.HopID
	for _, s := range hop.In(chain, id).Steps {
		all = append(all, s.Needs.Hops...)
	}
	return all
}

// OwnFault reports whether the facts show a fault at the finding's own place, which no missing answer elsewhere
// explains: a phase below http failed, a pair of probes proves it, or the platform reports it. A 5xx, and silence or
// a hang-up over a connection that works, do not count: a component that waits for the platform has the same symptoms.
func OwnFault(c *hop.Case, f *diag.Finding) bool {
	if len(f.Evidence) == 0 {
		return true
	}
	fact := c.FactByID(f.Evidence[0])
	if fact == nil {
		return true
	}
	if proof, _, few := Prove(c, f.Signal, fact.ID); proof != nil || few {
		return true
	}
	if reading.Status(fact) >= 500 || (fact.WS != nil && fact.WS.Status >= 500) || (reading.HungUp(fact) &&
		reading.InPhase(fact, "http")) {
		return false
	}
	if fact.Failure.Silent() {
		return reading.InPhase(fact, "env", "dns", "tcp", "trust", "cert", "tls", "mtls")
	}
	return f.Direct || reading.InPhase(fact, "env", "dns", "tcp", "trust", "cert", "tls", "mtls", "http")
}

// unheard is the finding of a hop whose request got no answer or only an error, in the form of a blame.
func unheard(h *diag.HopResult, c *hop.Case) diag.Finding {
	f := silentFact(h, c)
	row := c.Hop(h.ID).Silence
	out := diag.Finding{
		Status: diag.StatusInconclusive, Signal: row.Signal, Side: row.Side, Failure: f.Failure, Evidence: []string{f.ID},
		Text: fmt.Sprintf("%s got %s: %s%s; steps that need it are inconclusive", row.Request, world.Gets(f), reading.Saw(f),
			world.AnsweredUntil(c, f)+world.BesideOthers(c, f)),
	}
	if f.Failure == diag.Cancelled {
		out.Failure = diag.Timeout
	}
	world.SettleSilence(c.Hop(h.ID), c, &out)
	return out
}
