package world

import (
	"cmp"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// Conclusion is what may rest on a fact.
type Conclusion int

// The conclusions. They are bits: a doubt may concern several.
const (
	ForFinding     Conclusion = 1 << iota // what a hop's judge concludes
	ForWarning                            // a finding that is a warning
	ForSilence                            // the finding of a hop that got no answer
	ForProof                              // a pair with a request that passes
	ForPair                               // one pair of several
	ForObservation                        // the fact has the cause as its value
	ForClaim                              // a text about more than the fact itself
)

// doubted is a fact on which something is about to rest.
type doubted struct {
	of   Conclusion
	c    *hop.Case
	fact *diag.Fact
	out  *diag.Finding // of findings only, as is hop
	hop  *hop.Hop
}

// doubt is a reason not to conclude from a fact what it seems to show. A new one is a row and a case of its test:
// nothing else decides whether a fact counts.
type doubt struct {
	name string
	of   Conclusion
	why  func(d *doubted) string        // in words; "" if it does not hold
	then func(d *doubted, words string) // what becomes of a finding; nil: there is none
	more bool                           // the rows below are asked as well
}

// doubts are asked in this order.
var doubts = [...]doubt{
	// What says nothing about the far side.
	{"own machine", ForFinding | ForWarning, ownMachine, replace(func(d *doubted, _ string) diag.Finding {
		return *ownMachineFinding(d.c, d.fact)
	}), false},
	{"login's network", ForFinding | ForWarning, loginsNetwork, without(diag.LackRights), false},
	{"platform ended", ForFinding | ForWarning | ForProof, platformEnded, ofPlatformsEnd, false},
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

	// What takes the ground from a proof or an observation alone.
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
	for _, row := range doubts {
		if row.of&of == 0 {
			continue
		}
		for _, f := range facts {
			if words := row.why(&doubted{of: of, c: c, fact: f}); words != "" {
				return words
			}
		}
	}
	return ""
}

// replace puts another finding in the place of the judge's.
func replace(by func(d *doubted, words string) diag.Finding) func(*doubted, string) {
	return func(d *doubted, words string) { *d.out = by(d, words) }
}

// without makes a finding undecided, for lack of something.
func without(lack diag.Lack) func(*doubted, string) {
	return replace(func(d *doubted, words string) diag.Finding {
		out := reading.Undecided(d.fact, "%s", words)
		out.Lack = cmp.Or(lack, out.Lack)
		return out
	})
}

// add adds the doubt to the finding's text.
func add(d *doubted, words string) {
	if d.fails() {
		d.out.Text += words
	} else {
		d.out.Because += words
	}
}

// fails reports whether the conclusion is that something fails.
func (d *doubted) fails() bool { return d.of != ForFinding || d.out.Status == diag.StatusFail }
