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
	lossy          string       // what else shows that packets are lost, see lossSeen
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
		u.lossy = lossSeen(c, q.first().Vantage)
	}
	return u
}

// mixed reports whether the question passed now and then.
func (u *instable) mixed() bool { return len(u.passed) > 0 && len(u.failed) > 0 }

// silent reports whether it was answered now and then, and not always.
func (u *instable) silent() bool { return len(u.passed) > 0 && len(u.unheard) > 0 }

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
func lossSeen(c *Case, vantage string) string {
	for _, known := range c.losses {
		if known.vantage == vantage {
			return known.words
		}
	}
	found := loss{vantage, lossIn(c, vantage)}
	c.losses = append(c.losses, found)
	return found.words
}

// loss is the result of lossSeen for a vantage.
type loss struct{ vantage, words string }

// lossIn computes lossSeen.
func lossIn(c *Case, vantage string) string {
	var again *diag.Fact // the first by id that had to send again
	unsteady, words := "", ""
	for q := range c.asked() {
		for runs := range byQuestion(q.runs) {
			silent := seenFrom(runs, vantage, gotNoAnswer)
			if len(silent) == 0 {
				continue
			}
			heard := seenFrom(runs, vantage, fromAfar)
			step, name, _ := splitID(runs[0].fact.ID)
			n, m, id := len(heard), len(waited(silent, heard)), step+"~"+name
			if n > 0 && m > 0 && (unsteady == "" || id < unsteady) {
				unsteady = id
				words = fmt.Sprintf("answers come and go: %s was answered %d of %d times", strings.TrimSuffix(id, "~"), n, n+m)
			}
		}
		for _, f := range seenFrom(q.runs, vantage, resent) {
			if fromAfar(f) && (again == nil || f.ID < again.ID) {
				again = f
			}
		}
	}
	if words == "" && again != nil {
		return fmt.Sprintf("packets are lost: %s was answered after %d segments were sent again", again.ID, *again.TCP.Resent)
	}
	return words
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

// judgeStability turns a finding from a question that was answered now and then into that: what a lossy network does to
// one probe is the cause of nothing else. One that could not be asked again, and was silent while others from the same
// place were answered now and then, has the same culprit.
func judgeStability(c *Case, f *diag.Fact, out *diag.Finding) {
	step, name, repeat := splitID(f.ID)
	if name != "" || repeat != 0 || !f.Request.Op.Row().Ladder {
		return
	}
	switch u := instability(c, step); {
	case u.silent():
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
		out.Text += fmt.Sprintf("; asked %s, it comes and goes: %s", times(len(u.passed)+len(u.failed)), u.words())
	case u.lossy != "" && gotNoAnswer(f):
		out.Text += "; from the same place " + u.lossy + ", and this silence may be no more than that"
		out.Culprit = lossOf(f.Vantage)
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
