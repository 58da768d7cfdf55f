package world

import (
	"cmp"
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

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
		return "; but " + heard + ": new ones find no route, or a packet filter answers so; or this began after that"
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

func ofNetwork(d *doubted, words string) { ofNetworkOf(d, words, d.fact.Vantage) }

// ofNetworkOf makes a finding that the network of a vantage is the cause.
func ofNetworkOf(d *doubted, words, vantage string) {
	was := *d.out
	*d.out = diag.Finding{
		Status: was.Status, Signal: diag.SigNetworkUnstable, Failure: diag.Unstable, Evidence: was.Evidence, Text: words,
		Reason:  cmp.Or(was.Reason, diag.ReasonFor(was.Signal, was.Failure)),
		Culprit: reading.LossOf(vantage),
	}
	if vantage == hop.Operator {
		d.out.Side = diag.SideOperator
	}
	if vantage == hop.Operator || agentCame(d) != "" { // whether the node reaches the platform is not in question
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
