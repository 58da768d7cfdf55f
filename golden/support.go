package golden

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Support is how well today's rules support a fault's blame: proven, observed, or why neither.
type Support struct {
	Word  diag.Confidence
	Input string // input that can be changed so that a failing probe passes; "": the fault has none
	Why   string // why it is neither; for an input without a proof, why there is no pair
}

func proven(input string) Support { return Support{Word: diag.Proven, Input: input} }

func observed() Support { return Support{Word: diag.Observed} }

func neither(word diag.Confidence, why string) Support { return Support{Word: word, Why: why} }

// Check describes how the support of a walk's blame differs from the expected one, "" if it does not. Rules before
// repeatRules ran each probe once, so their reports have no proof.
func (s Support) Check(r *diag.Report, madeBy string) string {
	v := r.Verdict
	switch {
	case beforeRepeats(madeBy) && (v.Proof != nil || v.Confidence == diag.Proven):
		return fmt.Sprintf("confidence %s with proof %+v of questions that were asked once", v.Confidence, v.Proof)
	case s.Word == diag.Proven && beforeRepeats(madeBy):
		return ""
	case v.Confidence != s.Word,
		s.Word == diag.Proven && (v.Proof == nil || v.Proof.Changed != s.Input),
		s.Word == diag.Observed && v.Observation == nil:
		return fmt.Sprintf("confidence %s with proof %+v and observation %+v, want %s %s", v.Confidence, v.Proof,
			v.Observation, s.Word, s.Input)
	}
	return ""
}

// repeatRules are the first rules whose walks repeat the two probes of a proof.
const repeatRules = "5"

func beforeRepeats(rules string) bool {
	return len(rules) < len(repeatRules) || (len(rules) == len(repeatRules) && rules < repeatRules)
}

// Share counts how recordings support their blame.
type Share struct {
	Blamed, Proven, Observed int
	WithInput, InputProven   int // recordings whose fault has an input to change
}

// Add counts one judged recording.
func (s *Share) Add(path string, v *diag.Verdict) {
	if v.Blame == nil {
		return
	}
	input := Supports()[path].Input != ""
	s.Blamed++
	if input {
		s.WithInput++
	}
	switch v.Confidence {
	case diag.Proven:
		s.Proven++
		if input {
			s.InputProven++
		}
	case diag.Observed:
		s.Observed++
	}
}

// Supported returns the share of proven and observed blames, in percent, rounded down.
func (s *Share) Supported() int { return percent(s.Proven+s.Observed, s.Blamed) }

// OfInput returns the share of proven blames among faults with an input to change.
func (s *Share) OfInput() int { return percent(s.InputProven, s.WithInput) }

func percent(n, of int) int {
	if of == 0 {
		return 0
	}
	return 100 * n / of
}

// String has one line for each share.
func (s *Share) String() string {
	return strings.Join([]string{
		fmt.Sprintf("proven or observed: %d + %d of %d (%d %%)", s.Proven, s.Observed, s.Blamed, s.Supported()),
		fmt.Sprintf("proven of those with an input to change: %d of %d (%d %%)", s.InputProven, s.WithInput, s.OfInput()),
	}, "\n")
}
