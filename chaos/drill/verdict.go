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
	Late          Word = "late"           // the chain reported the right finding, after its budget
	Collateral    Word = "collateral"     // a hop that must stay green failed, or a correlation id was lost
	WrongHop      Word = "wrong_hop"      // the chain blamed something else
	NotDetected   Word = "not_detected"   // the chain did not report everything expected
	NotInjected   Word = "not_injected"   // independent probes did not see the fault, or the control probe failed
	RevertedEarly Word = "reverted_early" // a machine reverted itself before it was asked to
	AbortedGuard  Word = "aborted_guard"  // a guard prevented the injection, or ended it early
	Infra         Word = "infra"          // a failure that the drill is not about, or a missing measurement
	NoRecovery    Word = "no_recovery"    // everything was reverted, but the chain did not become green
	Conflict      Word = "conflict"       // another process changed what the drill had changed; it was left alone
	Residue       Word = "residue"        // a machine is not as it was
)

// words lists every verdict, the worst last: residue on a machine matters more than a test result.
var words = [...]Word{Pass, Late, Collateral, WrongHop, NotDetected, NotInjected, RevertedEarly, AbortedGuard, Infra,
	NoRecovery, Conflict, Residue}

// Words lists every verdict, the worst last.
func Words() []Word { return words[:] }

// Worse reports whether w is worse than o.
func (w Word) Worse(o Word) bool { return slices.Index(words[:], w) > slices.Index(words[:], o) }

// Verdict is the outcome of a run.
type Verdict struct {
	Word Word   `json:"word"`
	Text string `json:"text"` // why, in one line
}

// Verdict returns the worst verdict of the claims. If all are good, a claim that was not seen still prevents a
// pass.
func (s *Story) Verdict() Verdict {
	v := Verdict{Word: Pass}
	var unseen []string
	for _, c := range s.Claims() {
		if c.Word != "" && c.Word.Worse(v.Word) {
			v = Verdict{c.Word, c.Text}
		}
		if c.Outcome() == NotSeen {
			unseen = append(unseen, c.Title)
		}
	}
	switch {
	case v.Word != Pass:
	case s.Interrupted != "":
		v = Verdict{Infra, s.Interrupted}
	case len(unseen) > 0:
		// the others follow from the first one
		v = Verdict{Infra, "not seen: " + strings.Join(append(unseen[:1], s.Trouble...), "; ")}
	default:
		v.Text = s.passed()
	}
	return v
}

// passed returns the summary of a pass, with its figures.
func (s *Story) passed() string {
	what := "nothing was blamed, in a walk that ended"
	if w := s.detected(); w != nil && !s.Plan.Scenario.Expect.Blame.None {
		what = w.VerdictLine() + ", seen"
	}
	return fmt.Sprintf("%s %s; green again %s; nothing is left", what, s.detect(), s.recovered())
}
