package world

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// doubts are asked in this order.
var doubts = [...]doubt{
	// What says nothing about the far side.
	{"own machine", ForFinding | ForWarning, ownMachine, replace(func(d *doubted, _ string) diag.Finding {
		return *ownMachineFinding(d.c, d.fact)
	}), false},
	{"login's network", ForFinding | ForWarning, loginsNetwork, without(diag.LackRights), false},
	{"platform ended", ForFinding | ForWarning | ForProof, platformEnded, ofPlatformsEnd, false},
	{"guessed path", ForFinding | ForWarning | ForSilence | ForProof, guessed,
		replace(func(d *doubted, words string) diag.Finding { return notMapped(d.fact, words) }), false},
	{"limiter", ForFinding, limiter, without(""), false},
	{"refused beside others", ForFinding, refusedBeside, without(diag.LackTime), false},
	{"cache", ForFinding, cached, without(diag.LackPlatform), false},
	{"changed during the walk", ForFinding, changed, without(diag.LackTime), false},

	// What narrows down where the fault is.
	{"one address family", ForFinding, strayFamily, add, true},
	{"answered before", ForFinding, answeredBefore, add, true},
	{"beside others", ForFinding, besideOthers, add, true},
	{"unstable network", ForFinding | ForSilence, unstableNetwork, ofNetwork, false},
	{"loss alone", ForFinding | ForSilence, lossAlone, ofNetwork, false},
	{"agent behind loss", ForFinding, agentBehindLoss, ofNodesNetwork, false},
	{"only new connections", ForFinding, onlyNew, ofNewConnections, true},
	{"mixed results", ForFinding | ForSilence | ForProof, mixedResults, add, true},
	{"another answer", ForFinding | ForSilence | ForObservation, anotherAnswer, add, true},
	{"lossy path", ForFinding | ForSilence | ForClaim, lossyPath, ofLossyPath, true},
	{"answered later", ForFinding | ForSilence | ForPair, answeredLater, add, true},
	{"answer with a gap", ForFinding | ForSilence, answerWithGap, ofGap, true},
	{"answer that stopped", ForFinding | ForSilence, answerStopped, add, true},

	// What forbids only a proof or an observation.
	{"passed at another time", ForObservation, passedOnce, nil, false},
	{"name servers take turns", ForPair, turns, nil, false},
	{"ended without a certificate", ForPair, noHabit, nil, false},
	{"gap in the answer", ForPair, gap, nil, false},
	{"loss from there", ForPair, lossFromThere, nil, false},
}

// Settle makes of a finding what the doubts about its deciding fact leave of it.
func Settle(h *hop.Hop, c *hop.Case, out *diag.Finding) {
	if out.Status == diag.StatusWarn {
		settle(&doubted{of: ForWarning, c: c, out: out, hop: h})
	} else {
		settle(&doubted{of: ForFinding, c: c, out: out, hop: h})
	}
}

// SettleSilence is Settle for the finding of a hop that got no answer.
func SettleSilence(h *hop.Hop, c *hop.Case, out *diag.Finding) {
	settle(&doubted{of: ForSilence, c: c, out: out, hop: h})
}

func settle(d *doubted) {
	if len(d.out.Evidence) == 0 {
		return
	}
	if d.fact = d.c.FactByID(d.out.Evidence[0]); d.fact == nil {
		return
	}
	for _, row := range doubts {
		if row.of&d.of == 0 {
			continue
		}
		if words := row.why(d); words != "" {
			if row.then(d, words); !row.more {
				return
			}
		}
	}
}

// InDoubt returns why a conclusion cannot rest on these facts, "" if it can.
func InDoubt(c *hop.Case, of Conclusion, facts ...*diag.Fact) string {
	d := &doubted{of: of, c: c}
	for _, row := range doubts {
		if row.of&of == 0 {
			continue
		}
		for _, d.fact = range facts {
			if words := row.why(d); words != "" {
				return words
			}
		}
	}
	return ""
}
