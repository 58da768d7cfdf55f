package world

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

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
		u.late(),
		u.differs())
}

func howMany(facts []*diag.Fact, is func(*diag.Fact) bool) (n int) {
	for _, f := range facts {
		if is(f) {
			n++
		}
	}
	return n
}

// lostOnTheWay reports whether packets of an unanswered request were lost: the look-up or the connection attempt got no
// answer, the kernel had to send again, or the answer has a gap.
func lostOnTheWay(f *diag.Fact) bool {
	return reading.InPhase(f, "dns", "tcp") || reading.Resent(f) || reading.HasGap(f)
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

// AnsweredRemotely reports whether a remote host answered a request, even by a refusal. An error of the probing machine
// or its helper does not count.
func AnsweredRemotely(f *diag.Fact) bool {
	switch f.Failure {
	case diag.Cancelled, diag.Unsupported, diag.NotPermitted, diag.TCPNoRoute, diag.TCPNetUnreachable:
		return false
	}
	return f.Request.Op.Row().Ladder && !reading.GotNoAnswer(f) && !f.Failure.Local() && !hop.Lost(f) && !f.Empty() &&
		(f.Passed() || (reading.Rung(f.Phase) >= reading.Rung("dns") && !reading.InPhase(f, "trust", "cert")))
}

// LossSeen describes the evidence that packets or answers are lost on a vantage's path: a connection with
// retransmitted segments, or a request that was answered one time and not another time. "" without evidence.
func LossSeen(c *hop.Case, vantage string) string { return lossFrom(c, vantage).words }

// lossFrom is LossSeen with whether packets or only answers are lost; it caches its results.
func lossFrom(c *hop.Case, vantage string) loss {
	known := lossMemo.Of(c)
	i := slices.IndexFunc(*known, func(l loss) bool { return l.vantage == vantage })
	if i < 0 {
		i, *known = len(*known), append(*known, lossIn(c, vantage))
	}
	return (*known)[i]
}

var lossMemo = hop.NewMemo(func(*hop.Case) []loss { return nil }) // filled in by lossFrom

// loss is the result of lossFrom for a vantage.
type loss struct {
	vantage, words string
	onTheWay       bool // packets are lost, and not only answers
}

// lossIn computes lossFrom.
func lossIn(c *hop.Case, vantage string) loss {
	var again *diag.Fact // the first by id that had to send again
	found, unsteady := loss{vantage: vantage}, ""
	for q := range c.AllStepFacts() {
		for runs := range hop.ByRequest(q.Runs) {
			silent := seenFrom(runs, vantage, reading.GotNoAnswer)
			if len(silent) == 0 {
				continue
			}
			heard := seenFrom(runs, vantage, AnsweredRemotely)
			step, name, _ := hop.SplitID(runs[0].Fact.ID)
			unheard, id := waited(silent, heard), step+"~"+name
			n, m, lost := len(heard), len(unheard), slices.ContainsFunc(unheard, lostOnTheWay)
			known := unsteady != "" && ((found.onTheWay && !lost) || (found.onTheWay == lost && unsteady < id))
			if n == 0 || m == 0 || known {
				continue
			}
			unsteady, found.onTheWay = id, lost
			found.words = fmt.Sprintf("answers are intermittent: %s was answered %d of %d times", strings.TrimSuffix(id, "~"),
				n, n+m)
		}
		for _, f := range seenFrom(q.Runs, vantage, reading.Resent) {
			if AnsweredRemotely(f) && (again == nil || f.ID < again.ID) {
				again = f
			}
		}
	}
	if again != nil && !found.onTheWay {
		found.onTheWay = true
		found.words = fmt.Sprintf("packets are lost: %s was answered after %d segments were retransmitted", again.ID,
			*again.TCP.Resent)
	}
	return found
}

// seenFrom returns the facts of runs from a vantage that satisfy is.
func seenFrom(runs []hop.Run, vantage string, is func(*diag.Fact) bool) []*diag.Fact {
	var facts []*diag.Fact
	for _, r := range runs {
		if f := r.Fact; f.Vantage == vantage && f.Failure != diag.Cancelled && !hop.Lost(f) && is(f) {
			facts = append(facts, f)
		}
	}
	return facts
}

// waited returns the silent runs that waited at least as long as the request's quickest answer took: a shorter wait
// shows no loss.
func waited(silent, heard []*diag.Fact) []*diag.Fact {
	return slices.DeleteFunc(slices.Clone(silent), func(f *diag.Fact) bool {
		return !slices.ContainsFunc(heard, func(h *diag.Fact) bool { return h.DurationMS <= f.DurationMS })
	})
}

// legOf names the endpoints between which the silent runs were lost: the leg that they share, else the whole path.
func legOf(f *diag.Fact, unheard []*diag.Fact) string {
	inDNS := 0
	server, remote := "", ""
	for _, u := range unheard {
		if reading.InPhase(u, "dns") {
			inDNS++
			if u.DNS != nil {
				server = u.DNS.Server
			}
		} else if u.TCP != nil {
			remote = u.TCP.Remote
		}
	}
	place := "the " + f.Vantage
	switch {
	case inDNS == len(unheard) && server != "":
		return place + " and its DNS server " + server
	case inDNS == 0 && remote != "":
		return place + " and " + remote
	}
	return place + " and " + hop.HostPortOf(reading.Target(f))
}

// steps reports whether the fact is a step's own and first request over the network: only that has repeats.
func (d *doubted) steps() bool {
	_, name, repeat := hop.SplitID(d.fact.ID)
	return name == "" && repeat == 0 && d.fact.Request.Op.Row().Ladder
}

// unstableNetwork: what a lossy network does to one probe is the cause of nothing else. A slow server is not an
// unstable network.
func unstableNetwork(d *doubted) string {
	if !d.fails() || !d.steps() {
		return ""
	}
	u := OwnRuns(d.c, d.fact.ID)
	if !u.Unstable() {
		return ""
	}
	return fmt.Sprintf("the %s sent the same request to %s %s: %s; the loss is at or between %s", d.fact.Vantage,
		reading.Where(d.fact), reading.Times(len(u.passed)+len(u.failed)), u.words(), legOf(d.fact, u.unheard))
}

func ofNetwork(d *doubted, words string) {
	was := *d.out
	*d.out = diag.Finding{
		Status: was.Status, Signal: diag.SigNetworkUnstable, Failure: diag.Unstable, Evidence: was.Evidence, Text: words,
		Reason:  cmp.Or(was.Reason, diag.ReasonFor(was.Signal, was.Failure)),
		Culprit: reading.LossOf(d.fact.Vantage),
	}
	if d.fact.Vantage == hop.Operator {
		d.out.Side, d.out.Reason = diag.SideOperator, diag.ReasonNone
	}
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

// lossyPath: a silence on a path that loses packets may be one of them.
func lossyPath(d *doubted) string {
	if !reading.GotNoAnswer(d.fact) || !d.counts(false) ||
		(d.out != nil && (mixedResults(d) != "" || anotherAnswer(d) != "")) {
		return ""
	}
	if seen := LossSeen(d.c, d.fact.Vantage); seen != "" {
		return "; from the same vantage " + seen + ", which alone may explain this missing answer"
	}
	return ""
}

func ofLossyPath(d *doubted, words string) {
	add(d, words)
	if lossFrom(d.c, d.fact.Vantage).onTheWay {
		d.out.Culprit = reading.LossOf(d.fact.Vantage)
	}
}

func passedOnce(d *doubted) string {
	if !PassedOnce(d.c, d.fact) {
		return ""
	}
	return "the same request passed at another time of this walk"
}

func lossFromThere(d *doubted) string {
	if words := LossSeen(d.c, d.fact.Vantage); words != "" && reading.GotNoAnswer(d.fact) {
		return "from the same vantage " + words
	}
	return ""
}
