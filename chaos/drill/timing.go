package drill

import (
	"fmt"
	"math"

	"github.com/gpuaas/gpuaasctl/chaos"
)

// Timing brackets the time of an event and compares it with a budget. The event had not happened at AfterMS, and
// had happened at WithinMS.
type Timing struct {
	Seen     bool           `json:"seen"`
	AfterMS  int64          `json:"after_ms"`
	WithinMS int64          `json:"within_ms,omitempty"`
	Budget   chaos.Duration `json:"budget"`
}

// String returns "within 1.2 s of 30 s" or "between 0.44 s and 1.2 s of 30 s", rounded outwards.
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

// Rounded converts ms to seconds, rounded by round to a readable precision: "0.40", "1.1", "10.4", "30", "124".
func Rounded(ms int64, round func(float64) float64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%.2f", round(float64(ms)/10)/100)
	case ms < 100_000 && ms%1000 != 0:
		return fmt.Sprintf("%.1f", round(float64(ms)/100)/10)
	}
	return fmt.Sprintf("%.0f", round(float64(ms)/1000))
}

// Seconds formats milliseconds as seconds, rounded down to tenths: "0.4s".
func Seconds(ms int64) string { return fmt.Sprintf("%d.%ds", ms/1000, ms%1000/100) }

// detect returns the time to detect: after the last walk that did not report the fault, within the first that did.
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

// recovered returns the time to recover, bracketed in the same way. Walks that began before every revert was known
// do not count: a machine that was given up may have responded only afterwards.
func (s *Story) recovered() Timing {
	t := Timing{Budget: s.Plan.Budgets.RecoverWithin}
	zero, back := s.RevertedAt()
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

// injected returns how long it took until the independent probes saw the fault.
func (s *Story) injected() Timing {
	t := Timing{Budget: s.Plan.Budgets.InjectWithin}
	if l := s.LastProbe(During, ProbeInjected); l != nil && l.Held {
		t.Seen, t.WithinMS = true, int64(l.TookMS)
	}
	return t
}

// over reports whether t exceeds its budget. It does if the interval reaches past the budget, since it is not
// proven to be within.
func (t Timing) over() bool { return t.WithinMS > t.Budget.Std().Milliseconds() }
