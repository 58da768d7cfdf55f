package drill

import (
	"fmt"
	"slices"
	"strings"
)

// Word is a verdict.
type Word string

// The verdicts.
const (
	Pass          Word = "pass"
	Late          Word = "late"           // the chain reported the right thing, after its budget
	Collateral    Word = "collateral"     // a hop failed that had to stay green, or an id was lost on the way
	WrongHop      Word = "wrong_hop"      // the chain blamed something else
	NotDetected   Word = "not_detected"   // the chain did not report all that was expected
	NotInjected   Word = "not_injected"   // independent probes did not see the fault, or nothing worked any more
	RevertedEarly Word = "reverted_early" // a machine reverted itself before it was asked
	AbortedGuard  Word = "aborted_guard"  // a guard was against it: nothing was broken, or not for longer
	Infra         Word = "infra"          // something that the drill is not about did not work, or was not measured
	NoRecovery    Word = "no_recovery"    // everything was reverted, and the chain did not become green
	Conflict      Word = "conflict"       // another process changed what the drill had changed; it was left alone
	Residue       Word = "residue"        // a machine is not as it was
)

// words is every verdict, the worse the later: what is left on a machine matters more than what was learnt there.
var words = [...]Word{Pass, Late, Collateral, WrongHop, NotDetected, NotInjected, RevertedEarly, AbortedGuard, Infra,
	NoRecovery, Conflict, Residue}

// Words lists every verdict, the worse the later.
func Words() []Word { return words[:] }

// Worse reports whether w wins over o.
func (w Word) Worse(o Word) bool { return slices.Index(words[:], w) > slices.Index(words[:], o) }

// Verdict is the outcome of a run.
type Verdict struct {
	Word Word   `json:"word"`
	Text string `json:"text"` // why, in one line
}

// Verdict is the worst of the claims. If none is bad, one that was not seen prevents a pass.
func (s *Story) Verdict() Verdict {
	v := Verdict{Word: Pass}
	var unseen []string
	for _, c := range s.Claims() {
		if c.Word != "" && c.Word.Worse(v.Word) {
			v = Verdict{c.Word, c.Text}
		}
		if c.State == NotSeen {
			unseen = append(unseen, c.Title)
		}
	}
	switch {
	case v.Word != Pass:
	case s.Interrupted != "":
		v = Verdict{Infra, s.Interrupted}
	case len(unseen) > 0:
		// the others follow from the first
		v = Verdict{Infra, "not seen: " + strings.Join(append(unseen[:1], s.Trouble...), "; ")}
	default:
		v.Text = s.passed()
	}
	return v
}

// passed returns what was shown, with the figures.
func (s *Story) passed() string {
	what := "nothing was blamed, in a walk that ended"
	if w := s.detected(); w != nil && !s.Plan.Scenario.Expect.Blame.None {
		what = w.Says() + ", seen"
	}
	return fmt.Sprintf("%s %s; green again %s; nothing is left", what, s.detect(), s.recovered())
}
