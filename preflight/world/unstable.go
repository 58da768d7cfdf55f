package world

import (
	"cmp"
	"fmt"
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
		for _, f := range seenFrom(q.Runs, vantage, reading.Resent) {
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
	words := fmt.Sprintf("the %s sent the same request to %s %s: %s; the loss is at or between %s", d.fact.Vantage,
		reading.Where(d.fact), reading.Times(len(u.passed)+len(u.failed)), u.words(), legOf(d.fact, u.unheard))
	t, heard := trafficOf(d.c, d.fact.Vantage), agentCame(d)
	if (len(u.passed) > 2 || heard != "") && t.again == 0 && howMany(u.unheard, unconnected) == len(u.unheard) {
		words += "; nothing was lost over the connections that were made: " + connectionLimit
	}
	if heard != "" {
		words += "; " + heard
	}
	return words
}

// connectionLimit is what lets some connections through, and no further ones.
const connectionLimit = "a limit on connections, or a full state table, may keep out new ones only"

func unconnected(f *diag.Fact) bool { return reading.InPhase(f, "tcp") }

// onlyNew: an agent that gets through over a connection of its own shows that the path works, and that new connections
// do not.
func onlyNew(d *doubted) string {
	f := d.fact
	if !d.fails() || f.Vantage != hop.Node || !unconnected(f) || f.Failure.Local() {
		return ""
	}
	heard := agentCame(d)
	if heard == "" {
		return ""
	}
	if f.Failure == diag.TCPNoRoute || f.Failure == diag.TCPNetUnreachable {
		return "; but " + heard + ": new connections have no route, or this began after that"
	}
	return "; but " + heard + ", over a connection that it had: " + connectionLimit + ", or this began after that"
}

// agentCame describes what the agent itself got through in this walk, on the way of the node's request; "" if nothing.
func agentCame(d *doubted) string {
	if d.fact.Vantage != hop.Node {
		return ""
	}
	return agentHeard(d.c, d.fact)
}

func ofNewConnections(d *doubted, words string) {
	add(d, words)
	d.out.Reason = diag.ReasonNone
}

func ofNetwork(d *doubted, words string) {
	was := *d.out
	*d.out = diag.Finding{
		Status: was.Status, Signal: diag.SigNetworkUnstable, Failure: diag.Unstable, Evidence: was.Evidence, Text: words,
		Reason:  cmp.Or(was.Reason, diag.ReasonFor(was.Signal, was.Failure)),
		Culprit: reading.LossOf(d.fact.Vantage),
	}
	if d.fact.Vantage == hop.Operator {
		d.out.Side = diag.SideOperator
	}
	if d.fact.Vantage == hop.Operator || agentCame(d) != "" { // whether the node reaches the platform is not in question
		d.out.Reason = diag.ReasonNone
	}
}

// lossyPath: a silence on a path that loses packets may be one of them.
func lossyPath(d *doubted) string {
	u := OwnRuns(d.c, d.fact.ID)
	if !reading.GotNoAnswer(d.fact) || !d.counts(false) || (d.out != nil && u.mixed()) {
		return ""
	}
	seen := LossSeen(d.c, d.fact.Vantage)
	if d.out != nil {
		seen = u.lossy.words // none if the silence is another hop's, whose step passes
	}
	if seen == "" {
		return ""
	}
	return "; from the same vantage " + seen + ", which alone may explain this missing answer"
}

func ofLossyPath(d *doubted, words string) {
	add(d, words)
	if lossFrom(d.c, d.fact.Vantage).onTheWay {
		d.out.Culprit = reading.LossOf(d.fact.Vantage)
	}
}

func lossFromThere(d *doubted) string {
	if words := LossSeen(d.c, d.fact.Vantage); words != "" && reading.GotNoAnswer(d.fact) {
		return "from the same vantage " + words
	}
	return ""
}
