package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// instable is what became of one question that was asked several times.
type instable struct {
	passed, failed []*diag.Fact
	unheard        []*diag.Fact // those of failed that nothing answered
	lossy          loss         // what was seen from the same place
}

// instability counts how a step's own question came out, each time that it was asked.
func instability(c *Case, step string) instable {
	var u instable
	q := question(c, step, "")
	if q == nil {
		return u
	}
	u.passed, u.failed = make([]*diag.Fact, 0, len(q.runs)), make([]*diag.Fact, 0, len(q.runs))
	for _, f := range q.runs {
		if passes(c, step, f) {
			u.passed = append(u.passed, f)
			continue
		}
		u.failed = append(u.failed, f)
		if gotNoAnswer(f) {
			u.unheard = append(u.unheard, f)
		}
	}
	if len(u.unheard) > 0 {
		if len(u.passed) > 0 {
			u.unheard = waited(u.unheard, u.passed)
		}
		u.lossy = lossFrom(c, q.first().Vantage)
	}
	return u
}

// mixed reports whether the question passed now and then.
func (u *instable) mixed() bool { return len(u.passed) > 0 && len(u.failed) > 0 }

// unstable reports whether it was answered now and then, and most of what got no answer was lost on the way.
func (u *instable) unstable() bool {
	return len(u.passed) > 0 && len(u.unheard) > 0 && 2*howMany(u.unheard, lostOnTheWay) >= len(u.unheard)
}

// late describes a question that was answered now and then although all of it arrived each time; "" for another.
func (u *instable) late() string {
	if len(u.passed) == 0 || len(u.unheard) == 0 || howMany(u.unheard, arrived) < len(u.unheard) {
		return ""
	}
	return "; all that was sent arrived, which points at a slow server, or one of several, and not at the network"
}

func howMany(facts []*diag.Fact, is func(*diag.Fact) bool) (n int) {
	for _, f := range facts {
		if is(f) {
			n++
		}
	}
	return n
}

// lostOnTheWay reports whether packets of a question that got no answer were lost: nothing answered the look-up or the
// connection attempt, or the kernel had to send again.
func lostOnTheWay(f *diag.Fact) bool { return inPhase(f, "dns", "tcp") || resent(f) }

// arrived reports whether the far kernel had taken the connection, and had acknowledged all that was sent. Where the
// near one cannot be asked, that is not known.
func arrived(f *diag.Fact) bool {
	return !inPhase(f, "dns", "tcp") && f.TCP != nil && f.TCP.Resent != nil && *f.TCP.Resent == 0
}

// proof is the same question with both outcomes.
func (u *instable) proof() *diag.Proof {
	return &diag.Proof{
		Failing: u.unheard[0].ID, Passing: u.passed[0].ID, Changed: diag.ChangedNothing,
		Text:   fmt.Sprintf("the same question was asked %s: %s", times(len(u.passed)+len(u.failed)), u.words()),
		Failed: len(u.failed), Passed: len(u.passed),
	}
}

// words reports how the runs came out: "3 got no answer (dns_timeout 2, tcp_timeout 1), 4 passed".
func (u *instable) words() string {
	parts := []string{}
	if n := len(u.unheard); n > 0 {
		parts = append(parts, fmt.Sprintf("%d got no answer (%s)", n, tally(u.unheard)))
	}
	if n := len(u.failed) - len(u.unheard); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed otherwise (%s)", n, tally(without(u.failed, u.unheard))))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d passed", len(u.passed))), ", ")
}

func without(all, some []*diag.Fact) []*diag.Fact {
	return slices.DeleteFunc(slices.Clone(all), func(f *diag.Fact) bool { return slices.Contains(some, f) })
}

// tally counts failure words.
func tally(facts []*diag.Fact) string {
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

// gotNoAnswer reports whether a question to a remote host got no answer.
func gotNoAnswer(f *diag.Fact) bool {
	return f.Failure.Silent() && f.Failure != diag.Unknown && f.Request.Op.Row().Ladder
}

// fromAfar reports whether a remote host answered a request, even by a refusal. An error of the probing machine or
// its helper does not count.
func fromAfar(f *diag.Fact) bool {
	switch f.Failure {
	case diag.Cancelled, diag.Unsupported, diag.NotPermitted, diag.TCPNoRoute, diag.TCPNetUnreachable:
		return false
	}
	return f.Request.Op.Row().Ladder && !gotNoAnswer(f) && !f.Failure.Local() && !lost(f) && !f.Hollow() &&
		(f.Passed() || (rung(f.Phase) >= rung("dns") && !inPhase(f, "trust", "cert")))
}

// lossSeen describes the evidence that packets or answers are lost on a vantage's path: a connection with
// retransmitted segments, or a request that was answered one time and not another time. "" without evidence.
func lossSeen(c *Case, vantage string) string { return lossFrom(c, vantage).words }

// lossFrom is lossSeen, and whether it is the way that loses something.
func lossFrom(c *Case, vantage string) loss {
	for _, known := range c.losses {
		if known.vantage == vantage {
			return known
		}
	}
	found := lossIn(c, vantage)
	c.losses = append(c.losses, found)
	return found
}

// loss is the result of lossSeen for a vantage.
type loss struct {
	vantage, words string
	onTheWay       bool // packets, and not only answers
}

// lossIn computes lossFrom.
func lossIn(c *Case, vantage string) loss {
	var again *diag.Fact // the first by id that had to send again
	found, unsteady := loss{vantage: vantage}, ""
	for q := range c.asked() {
		for runs := range byQuestion(q.runs) {
			silent := seenFrom(runs, vantage, gotNoAnswer)
			if len(silent) == 0 {
				continue
			}
			heard := seenFrom(runs, vantage, fromAfar)
			step, name, _ := splitID(runs[0].fact.ID)
			unheard, id := waited(silent, heard), step+"~"+name
			n, m, lost := len(heard), len(unheard), slices.ContainsFunc(unheard, lostOnTheWay)
			known := unsteady != "" && ((found.onTheWay && !lost) || (found.onTheWay == lost && unsteady < id))
			if n == 0 || m == 0 || known {
				continue
			}
			unsteady, found.onTheWay = id, lost
			found.words = fmt.Sprintf("answers come and go: %s was answered %d of %d times", strings.TrimSuffix(id, "~"), n, n+m)
		}
		for _, f := range seenFrom(q.runs, vantage, resent) {
			if fromAfar(f) && (again == nil || f.ID < again.ID) {
				again = f
			}
		}
	}
	if again != nil && !found.onTheWay {
		found.onTheWay = true
		found.words = fmt.Sprintf("packets are lost: %s was answered after %d segments were sent again", again.ID,
			*again.TCP.Resent)
	}
	return found
}

// seenFrom are the facts of runs from a vantage that satisfy is.
func seenFrom(runs []run, vantage string, is func(*diag.Fact) bool) []*diag.Fact {
	var facts []*diag.Fact
	for _, r := range runs {
		if f := r.fact; f.Vantage == vantage && f.Failure != diag.Cancelled && !lost(f) && is(f) {
			facts = append(facts, f)
		}
	}
	return facts
}

// waited are the silent runs of a question that waited as long as its quickest answer took: a slow answer loses
// nothing.
func waited(silent, heard []*diag.Fact) []*diag.Fact {
	return slices.DeleteFunc(slices.Clone(silent), func(f *diag.Fact) bool {
		return !slices.ContainsFunc(heard, func(h *diag.Fact) bool { return h.DurationMS <= f.DurationMS })
	})
}

// judgeStability turns a finding from a question that was lost now and then into that: what a lossy network does to one
// probe is the cause of nothing else. One that could not be asked again, and was lost while others from the same place
// were answered now and then, has the same culprit. A server that is slow is no network that loses.
func judgeStability(c *Case, f *diag.Fact, out *diag.Finding) {
	step, name, repeat := splitID(f.ID)
	if name != "" || repeat != 0 || !f.Request.Op.Row().Ladder {
		return
	}
	switch u := instability(c, step); {
	case u.unstable():
		reason := cmp.Or(out.Reason, diag.ReasonFor(out.Signal, out.Failure))
		*out = diag.Finding{
			Status: out.Status, Signal: diag.SigNetworkUnstable, Failure: diag.Unstable, Evidence: out.Evidence,
			Text: fmt.Sprintf("the %s asked %s %s: %s; between %s, both included, something is unstable",
				f.Vantage, where(f), times(len(u.passed)+len(u.failed)), u.words(), legOf(f, u.unheard)),
			Reason: reason, Culprit: lossOf(f.Vantage),
		}
		if f.Vantage == Operator {
			out.Side, out.Reason = diag.SideOperator, diag.ReasonNone
		}
	case u.mixed():
		out.Text += fmt.Sprintf("; asked %s, it comes and goes: %s%s", times(len(u.passed)+len(u.failed)), u.words(),
			u.late())
	case u.lossy.words != "" && gotNoAnswer(f):
		out.Text += "; from the same place " + u.lossy.words + ", and this silence may be no more than that"
		if u.lossy.onTheWay {
			out.Culprit = lossOf(f.Vantage)
		}
	}
}

func lossOf(vantage string) string { return vantage + " network unstable" }

// legOf names the endpoints between which the silent runs were lost: the leg that they share, else the whole path.
func legOf(f *diag.Fact, unheard []*diag.Fact) string {
	inDNS := 0
	server, remote := "", ""
	for _, u := range unheard {
		if inPhase(u, "dns") {
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
	return place + " and " + hostPortOf(target(f))
}
