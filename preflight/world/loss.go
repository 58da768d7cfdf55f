package world

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// lostOnTheWay reports whether packets of an unanswered request were lost: the look-up or the connection attempt got no
// answer, the kernel had to send again, or the answer has a gap.
func lostOnTheWay(f *diag.Fact) bool {
	return reading.InPhase(f, "dns", "tcp") || reading.Resent(f) || reading.HasGap(f)
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
	var worst unsteady
	var again *diag.Fact // the first by id that had to send again
	for q := range c.AllStepFacts() {
		for runs := range hop.ByRequest(q.Runs) {
			if u := unsteadyIn(runs, vantage); u.before(worst) {
				worst = u
			}
		}
		for f := range seen(q.Runs, vantage, reading.Resent) {
			if AnsweredRemotely(f) && (again == nil || f.ID < again.ID) {
				again = f
			}
		}
	}
	found := loss{vantage: vantage, onTheWay: worst.lost || again != nil}
	switch {
	case again != nil && !worst.lost:
		found.words = fmt.Sprintf("packets are lost: %s was answered after %d segments were retransmitted", again.ID,
			*again.TCP.Resent)
	case worst.id != "":
		found.words = fmt.Sprintf("answers are intermittent: %s was answered %d of %d times",
			strings.TrimSuffix(worst.id, "~"), worst.heard, worst.heard+worst.unheard)
	}
	return found
}

// unsteady is a request that was answered one time and not another time; the zero value is none.
type unsteady struct {
	id             string
	heard, unheard int
	lost           bool // on the way to its server
}

// before reports whether u says more than v: packets that were lost, then the first id.
func (u unsteady) before(v unsteady) bool {
	switch {
	case u.id == "" || v.id == "":
		return u.id != ""
	case u.lost != v.lost:
		return u.lost
	}
	return u.id <= v.id
}

// unsteadyIn returns the request of these runs, if it was unsteady from a vantage.
func unsteadyIn(runs []hop.Run, vantage string) unsteady {
	silent := seenFrom(runs, vantage, reading.GotNoAnswer)
	if len(silent) == 0 {
		return unsteady{}
	}
	heard := seenFrom(runs, vantage, AnsweredRemotely)
	unheard := waited(silent, heard)
	if len(heard) == 0 || len(unheard) == 0 {
		return unsteady{}
	}
	step, name, _ := hop.SplitID(runs[0].Fact.ID)
	return unsteady{step + "~" + name, len(heard), len(unheard), slices.ContainsFunc(unheard, lostOnTheWay)}
}

// seen yields the facts of runs from a vantage that satisfy is.
func seen(runs []hop.Run, vantage string, is func(*diag.Fact) bool) iter.Seq[*diag.Fact] {
	return func(yield func(*diag.Fact) bool) {
		for _, r := range runs {
			if f := r.Fact; f.Vantage == vantage && f.Failure != diag.Cancelled && !hop.Lost(f) && is(f) && !yield(f) {
				return
			}
		}
	}
}

// seenFrom returns what seen yields.
func seenFrom(runs []hop.Run, vantage string, is func(*diag.Fact) bool) []*diag.Fact {
	return slices.Collect(seen(runs, vantage, is))
}

// waited returns the silent runs that waited at least as long as the request's quickest answer took: a shorter wait
// shows no loss.
func waited(silent, heard []*diag.Fact) []*diag.Fact {
	return slices.DeleteFunc(slices.Clone(silent), func(f *diag.Fact) bool {
		return !slices.ContainsFunc(heard, func(h *diag.Fact) bool { return h.DurationMS <= f.DurationMS })
	})
}
