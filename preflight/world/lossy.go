package world

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// mayBeLoss is the probability from which on loss is a likely cause of a silence, and heavyLoss the share of lossy
// requests at which an agent is late, although it sends each of its own again.
const (
	mayBeLoss = 0.1
	heavyLoss = 0.5
)

// lossAlone: a network that loses so many packets of the other requests may have lost these as well, each time. So may
// one on which connections are made only some of the time, however far each of them came.
func lossAlone(d *doubted) string {
	if !d.fails() {
		return ""
	}
	if stalled(d.fact) {
		return fmt.Sprintf("%s; %d segments of that connection were sent again: packets between this operator and the node "+
			"are lost", d.out.Text, *d.fact.TCP.Resent)
	}
	if !reading.GotNoAnswer(d.fact) || !lostOnTheWay(d.fact) {
		return ""
	}
	t, silent := trafficOf(d.c, d.fact.Vantage), OwnRuns(d.c, d.fact.ID).unheard
	unmade, n := howMany(silent, func(f *diag.Fact) bool { return reading.InPhase(f, "dns", "tcp") }),
		max(1, len(silent))
	because := ""
	switch {
	case unmade > 0 && unmade < n:
		because = fmt.Sprintf("connections there were made %d of %d times", n-unmade, n)
	case t.loses() && math.Pow(float64(t.lossy)/float64(t.sent), float64(n)) >= mayBeLoss:
		because = t.words()
	default:
		return ""
	}
	return fmt.Sprintf("the %s got no answer from %s, %s: %s; %s, so loss alone may explain it", d.fact.Vantage,
		reading.Where(d.fact), reading.Times(n), reading.Saw(d.fact), because)
}

// ofAgent are the signals of what an agent did not do in time.
var ofAgent = map[diag.Signal]bool{
	diag.SigHeartbeatStale: true, diag.SigTaskClaimFailed: true, diag.SigResultPostFailed: true,
	diag.SigNodeStreamTimeout: true,
}

// agentBehindLoss: an agent whose network loses most of its requests is late for that alone, if it runs.
func agentBehindLoss(d *doubted) string {
	t := trafficOf(d.c, hop.Node)
	if !d.fails() || !ofAgent[d.out.Signal] || !t.loses() || float64(t.lossy) < heavyLoss*float64(t.sent) ||
		agentOf(d.c).Runs.No() {
		return ""
	}
	return d.out.Text + "; " + t.words() + ", so the loss alone may explain it"
}

func ofNodesNetwork(d *doubted, words string) {
	ofNetworkOf(d, words, hop.Node)
	if t := trafficOf(d.c, hop.Node); t.first != nil {
		d.out.Evidence = append([]string{t.first.ID}, d.out.Evidence...)
	}
}

// LossWarnings warns of packets that were lost although the requests were answered, at the first hop that saw it from
// that vantage.
func LossWarnings(h *hop.Hop, c *hop.Case, findings []diag.Finding) []diag.Finding {
	var out []diag.Finding
	for _, t := range *trafficMemo.Of(c) {
		if t.first == nil || !t.loses() || hop.OfFact(t.first.ID) != h.ID || slices.ContainsFunc(findings, isUnstable) {
			continue
		}
		w := reading.Warn(diag.SigNetworkUnstable, t.first, "%s: the network of the %s is unstable", t.words(), t.vantage)
		w.Reason, w.Failure, w.Culprit = diag.ReasonNone, diag.Unstable, reading.LossOf(t.vantage)
		if t.vantage == hop.Operator {
			w.Side = diag.SideOperator
		}
		out = append(out, w)
	}
	return out
}

func isUnstable(f diag.Finding) bool { return f.Signal == diag.SigNetworkUnstable }
