package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// PassedOnce reports whether the request of f passed another time: its answer is then that of one of several servers,
// or of one moment, and not the cause.
func PassedOnce(c *hop.Case, f *diag.Fact) bool {
	if !f.Request.Op.Row().Ladder {
		return false
	}
	step, _, _ := hop.SplitID(f.ID)
	u := OwnRuns(c, step)
	return u.mixed()
}

// otherAnswer returns a run of f's request that got another status than f, a 401 or 403; nil without one.
func otherAnswer(c *hop.Case, f *diag.Fact) *diag.Fact {
	step, _, _ := hop.SplitID(f.ID)
	q := hop.RequestOf(c, step, "")
	if q == nil || (reading.Status(f) != 401 && reading.Status(f) != 403) {
		return nil
	}
	for _, r := range q.Runs {
		if s := reading.Status(r); s != 0 && s != reading.Status(f) {
			return r
		}
	}
	return nil
}

// runResults holds the results of one request that ran several times.
type runResults struct {
	passed, failed []*diag.Fact
	unheard        []*diag.Fact // those of failed that got no answer
	lossy          loss         // loss seen from the same vantage
}

// OwnRuns returns the results of a step's own request and its repeats.
func OwnRuns(c *hop.Case, step string) *runResults {
	known := ownRuns.Of(c)
	if u := (*known)[step]; u != nil {
		return u
	}
	u := ownRunsOf(c, step)
	(*known)[step] = u
	return u
}

var ownRuns = hop.NewMemo(func(*hop.Case) map[string]*runResults { return map[string]*runResults{} })

func ownRunsOf(c *hop.Case, step string) *runResults {
	u := &runResults{}
	q := hop.RequestOf(c, step, "")
	if q == nil {
		return u
	}
	u.passed, u.failed = make([]*diag.Fact, 0, len(q.Runs)), make([]*diag.Fact, 0, len(q.Runs))
	for _, f := range q.Runs {
		if Passes(c, step, f) {
			u.passed = append(u.passed, f)
			continue
		}
		u.failed = append(u.failed, f)
		if reading.GotNoAnswer(f) {
			u.unheard = append(u.unheard, f)
		}
	}
	if len(u.unheard) > 0 {
		if len(u.passed) > 0 {
			u.unheard = waited(u.unheard, u.passed)
		}
		u.lossy = lossFrom(c, q.First().Vantage)
	}
	return u
}

// mixed reports whether only some of the runs passed.
func (u *runResults) mixed() bool { return len(u.passed) > 0 && len(u.failed) > 0 }

// Unstable reports whether only some of the runs were answered, and at least half of the silent ones were lost on the
// path.
func (u *runResults) Unstable() bool {
	return len(u.passed) > 0 && len(u.unheard) > 0 && 2*howMany(u.unheard, lostOnTheWay) >= len(u.unheard)
}

// late describes a request of which only some runs were answered although everything arrived each time; "" for any
// other. The local kernel counts only its own retransmissions, so the answer may have been lost on the way back.
func (u *runResults) late() string {
	if len(u.passed) == 0 || len(u.unheard) == 0 || howMany(u.unheard, reading.FullyAcknowledged) < len(u.unheard) {
		return ""
	}
	return "; all packets were acknowledged: a slow server (or one of several), or answers lost on the way back"
}

// differs describes a request that was answered every time, with different results; "" for any other.
func (u *runResults) differs() string {
	if len(u.unheard) > 0 {
		return ""
	}
	return "; one of several servers there, or one that changes"
}

// mixture describes a request that passed only some of the time.
func (u *runResults) mixture() string {
	return fmt.Sprintf("; sent %s with mixed results: %s%s%s", reading.Times(len(u.passed)+len(u.failed)), u.words(),
		u.late(), u.differs())
}

func howMany(facts []*diag.Fact, is func(*diag.Fact) bool) (n int) {
	for _, f := range facts {
		if is(f) {
			n++
		}
	}
	return n
}

// Proof returns the proof of instability: the same request with both outcomes.
func (u *runResults) Proof() *diag.Proof {
	return &diag.Proof{
		Failing: u.unheard[0].ID, Passing: u.passed[0].ID, Changed: diag.ChangedNothing,
		Text:   fmt.Sprintf("the same request was sent %s: %s", reading.Times(len(u.passed)+len(u.failed)), u.words()),
		Failed: len(u.failed), Passed: len(u.passed),
	}
}

// words describes the results of the runs: "3 got no answer (dns_timeout 2, tcp_timeout 1), 4 passed".
func (u *runResults) words() string {
	parts := []string{}
	if n := len(u.unheard); n > 0 {
		parts = append(parts, fmt.Sprintf("%d got no answer (%s)", n, Tally(u.unheard)))
	}
	if n := len(u.failed) - len(u.unheard); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed otherwise (%s)", n, Tally(Without(u.failed, u.unheard))))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d passed", len(u.passed))), ", ")
}

// Without returns all without some.
func Without[T comparable](all, some []T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(v T) bool { return slices.Contains(some, v) })
}

// Tally counts the failures: "dns_timeout 2, tcp_timeout 1".
func Tally(facts []*diag.Fact) string {
	n := map[diag.Failure]int{}
	for _, f := range facts {
		n[f.Failure]++
	}
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%s %d", word, n[word]))
	}
	return strings.Join(parts, ", ")
}

// mixedResults count for an undecided finding only if the request was refused: one of several servers may refuse it.
func mixedResults(d *doubted) string {
	u := OwnRuns(d.c, d.fact.ID)
	if !u.mixed() || !d.counts(reading.RefusesCredential(d.fact)) {
		return ""
	}
	return u.mixture()
}

func anotherAnswer(d *doubted) string {
	other := otherAnswer(d.c, d.fact)
	if other == nil || !d.counts(false) || (d.out != nil && mixedResults(d) != "") {
		return ""
	}
	return fmt.Sprintf("; the same request was also answered HTTP %d, so one of several servers there refuses it, "+
		"or one that changes", reading.Status(other))
}

func passedOnce(d *doubted) string {
	if !PassedOnce(d.c, d.fact) {
		return ""
	}
	return "the same request passed at another time of this walk"
}
