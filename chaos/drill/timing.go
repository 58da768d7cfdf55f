package drill

import (
	"fmt"
	"math"

	"github.com/gpuaas/gpuaasctl/chaos"
)

// Timing is when something was seen, compared with its budget. It happened after AfterMS, for then it was not there
// yet, and not after WithinMS, for then it was.
type Timing struct {
	Seen     bool           `json:"seen"`
	AfterMS  int64          `json:"after_ms"`
	WithinMS int64          `json:"within_ms,omitempty"`
	Budget   chaos.Duration `json:"budget"`
}

// String is "within 1.2 s of 30 s" or "between 0.44 s and 1.2 s of 30 s", rounded so that it holds what was measured.
func (t Timing) String() string {
	budget := Rounded(t.Budget.Std().Milliseconds(), math.Round)
	switch {
	case !t.Seen:
		return fmt.Sprintf("not within %s s", budget)
	case t.AfterMS > 0:
		return fmt.Sprintf("between %s s and %s s of %s s", Rounded(t.AfterMS, math.Floor), Rounded(t.WithinMS, math.Ceil),
			budget)
	}
	return fmt.Sprintf("within %s s of %s s", Rounded(t.WithinMS, math.Ceil), budget)
}

// Rounded is ms in seconds, rounded by round to what a reader compares: "0.40", "1.1", "10.4", "30", "124".
func Rounded(ms int64, round func(float64) float64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%.2f", round(float64(ms)/10)/100)
	case ms < 100_000 && ms%1000 != 0:
		return fmt.Sprintf("%.1f", round(float64(ms)/100)/10)
	}
	return fmt.Sprintf("%.0f", round(float64(ms)/1000))
}

// Seconds writes milliseconds as seconds, tenths rounded down: "0.4s".
func Seconds(ms int64) string { return fmt.Sprintf("%d.%ds", ms/1000, ms%1000/100) }

// detect is the time to detect: after the last walk that did not report it, within the first that did.
func (s *Story) detect() Timing {
	t := Timing{Budget: s.Plan.Budgets.DetectWithin}
	zero, placed := s.InPlace()
	found := s.detected()
	for _, w := range s.walks(During) {
		if found != nil && w.N == found.N {
			break
		}
		if word, _ := Judge(s.Plan.Scenario.Expect, w); word != Pass {
			t.AfterMS = max(0, w.EndedMS-zero)
		}
	}
	if found != nil && placed {
		t.Seen, t.WithinMS = true, max(1, found.EndedMS-zero)
	}
	return t
}

// recovered is the time to recover, in the same way. Walks that began before everything was known to be reverted show
// nothing of it: a machine that was given up may have answered only afterwards.
func (s *Story) recovered() Timing {
	t := Timing{Budget: s.Plan.Budgets.RecoverWithin}
	zero, back := s.PutBack()
	first, enough := s.green()
	for _, w := range s.walks(After) {
		if !w.Green() {
			t.AfterMS = max(0, w.EndedMS-zero)
		}
	}
	if enough && back && first.BeganMS >= zero {
		t.Seen, t.WithinMS = true, max(1, first.EndedMS-zero)
	}
	return t
}

// injected is how long it took until independent probes saw the fault.
func (s *Story) injected() Timing {
	t := Timing{Budget: s.Plan.Budgets.InjectWithin}
	if l := s.Look(During, LookInjected); l != nil && l.Held {
		t.Seen, t.WithinMS = true, int64(l.TookMS)
	}
	return t
}

// over reports whether t is past its budget. An interval that reaches past it is: it is not proven to be in time.
func (t Timing) over() bool { return t.WithinMS > t.Budget.Std().Milliseconds() }
