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

// steps reports whether the fact is a step's own and first request over the network: only that has repeats.
func (d *doubted) steps() bool {
	_, name, repeat := hop.SplitID(d.fact.ID)
	return name == "" && repeat == 0 && d.fact.Request.Op.Row().Ladder
}

// counts reports whether other runs of a request count: for a finding that fails by the step's own request, and for
// another one if also.
func (d *doubted) counts(also bool) bool {
	switch {
	case d.out == nil:
		return true
	case d.fails():
		return d.steps()
	}
	return also
}
