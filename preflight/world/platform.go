package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// listenerAnswers reports whether the node's request without a certificate was answered.
func listenerAnswers(c *hop.Case) bool {
	reach := c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)
	return reach != nil && (reach.Passed() || ListenerReplied(c, reach))
}

const (

	// CulpritControlPlane is the culprit if neither the operator nor the node gets an answer.
	CulpritControlPlane = "control plane"
	// CulpritOperatorWay is the culprit if the platform answers the node, and the operator cannot reach any of it.
	CulpritOperatorWay = "operator's way"
)

// DescribeClosedHealthPage describes an answer for which DeniesAccess is true; only a 401 is about a login.
func DescribeClosedHealthPage(f *diag.Fact) string {
	if reading.Status(f) == 401 {
		return "wants a login (HTTP 401)"
	}
	return fmt.Sprintf("refuses a request without a token (HTTP %d)", reading.Status(f))
}

// Results of NodeHears.
const (
	unknownSide = iota
	AnsweredSide
	SilentSide
)

// NodeHears reports whether the platform's node API lives: it answers the node, or the operator, who asked it what the
// node had asked.
func NodeHears(c *hop.Case) int {
	side, by := nodeHears(c)
	reach := c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)
	if reach == nil || (side != unknownSide && by == c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)) {
		return side
	}
	if hears(c.FactByID(reach.ID+"~"+reading.CounterFromOperator)) == AnsweredSide {
		return AnsweredSide
	}
	return side
}

// nodeHears reports whether the node itself gets an answer from its API, and by which fact. A refusal is an answer,
// also by TLS; so is the answer to a counter-probe that used another address or view.
func nodeHears(c *hop.Case) (side int, by *diag.Fact) {
	wait, reach := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait), c.Fact(diag.HopNodeRuntimeAPI, hop.StepReach)
	if side := hears(wait); side != unknownSide {
		return side, wait // it reaches the API behind the listener
	}
	if reach == nil {
		return unknownSide, nil
	}
	for _, name := range []string{reading.CounterPinned, reading.CounterHostView, reading.CounterHostNetwork,
		reading.CounterProfileURL} {
		if f := c.FactByID(reach.ID + "~" + name); hears(f) == AnsweredSide {
			return AnsweredSide, f
		}
	}
	if c.FactByID(reach.ID + "~" + reading.CounterBare).Passed() {
		return unknownSide, nil // a connection that opens now is neither an answer nor silence
	}
	return hears(reach), reach
}

// hears reports what a request shows of the server that it went to. One that never left its machine is not evidence.
func hears(f *diag.Fact) int {
	switch {
	case f == nil || f.Failure == diag.Cancelled || f.Failure.Local():
		return unknownSide
	case f.Passed(), reading.InPhase(f, "mtls"), reading.Status(f) > 0 && reading.Status(f) < 500:
		return AnsweredSide
	case reading.Status(f) >= 500, reading.InPhase(f, "tcp", "http"), f.Failure == diag.TLSClosed:
		return SilentSide
	}
	return unknownSide
}

// CulpritAgentURL returns the culprit if the running agent uses another API than the profile's: the failure there and
// the difference are one fault.
func CulpritAgentURL(c *hop.Case) string { return "node " + c.AgentNames().API }

// ListenerReplied reports whether a listener answered, even with a refusal: a node ingress's 400 or alert, the end of a
// connection without a certificate, a 404, a login page.
func ListenerReplied(c *hop.Case, f *diag.Fact) bool {
	s := reading.Status(f)
	if f.Request.Op == diag.OpTLS && f.Failure == diag.TLSNotTLS && strings.HasPrefix(f.Target, "http://") {
		return true // a plain listener, and no path to request
	}
	return !f.Throttled() && (reading.InPhase(f, "mtls") || (s > 0 && s < 500) || PageAlone(c, f) ||
		(reading.EndedUnshown(f) && !endedForNode(c)))
}

// PageAlone reports whether f is a health page that fails at an API that takes this node's task wait.
func PageAlone(c *hop.Case, f *diag.Fact) bool {
	w := c.Fact(diag.HopNodeRecoveryStatus, hop.StepTaskWait)
	failing := reading.Status(f) >= 500 || (reading.Status(f) == 0 && reading.InPhase(f, "http") &&
		!reading.EndedUnshown(f))
	return failing && reading.OfPage(f) && w != nil && reading.Admitted(w) && hop.SameEndpoint(reading.Target(f),
		reading.Target(w))
}

// Gets describes what a failed request got.
func Gets(f *diag.Fact) string {
	switch {
	case reading.Good(f):
		return "an answer that is not valid"
	case reading.Status(f) != 0:
		return "only an error"
	case f.Passed():
		return "nothing that can be read"
	case f.Failure == diag.HTTPNotHTTP:
		return "no HTTP"
	case f.Failure == diag.TLSALPN:
		return "no HTTP/1.1"
	case reading.Distrusts(f) && reading.InPhase(f, "tls"):
		return "a certificate that does not verify, and no answer"
	case f.Failure == diag.TLSProtocol, f.Failure == diag.TLSNotTLS:
		return "no TLS connection"
	case f.Failure == diag.TCPRefused:
		return "only a refusal"
	case f.Failure == diag.TCPReset, f.Errno == "ECONNRESET":
		return "only a reset"
	}
	return "no answer"
}

// BesidePath returns the side of a failure that is not the network's, else "".
func BesidePath(c *hop.Case, f *diag.Fact) diag.Side {
	if ResolverAtFault(c, f) {
		return diag.SideNode
	}
	return behindListener(f)
}

// behindListener returns the platform's side if the connection was made but no valid answer came over it, else "".
func behindListener(f *diag.Fact) diag.Side {
	if reading.Status(f) != 0 || reading.InPhase(f, "http", "ws") {
		return diag.SidePlatform
	}
	return ""
}

// Presented describes the certificate that the server of f presented, and the one whose dates are at fault if that is
// another.
func Presented(f *diag.Fact) string {
	leaf := reading.ServedLeaf(f)
	if leaf == nil {
		return ""
	}
	text := fmt.Sprintf("; presented: %s by %s, valid until %s", leaf.Subject, leaf.Issuer,
		leaf.NotAfter.Format(time.DateOnly))
	if cert, what := reading.Misdated(f); cert != nil && !reading.OwnDates(f) {
		text = fmt.Sprintf("; %s, %s, is %s; it signed for %s, which itself is valid until %s", what, cert.Subject,
			reading.Dates(cert), leaf.Subject, leaf.NotAfter.Format(time.DateOnly))
	}
	if flaw := reading.Flaw(f); flaw != "" {
		text += "; " + flaw
	}
	return text
}

// NodeUnmeasured returns why nothing of the node was measured, "" if something was, or if only other things were asked
// for. Such a walk would pass for any name.
func NodeUnmeasured(hops []diag.HopResult, c *hop.Case) string {
	if !c.Chain.WantsNode(c.Plan) {
		return ""
	}
	var why []string
	for i := range hops {
		h := c.Hop(hops[i].ID)
		switch {
		case !h.AboutNode() || hop.OptedOut(c.Planned(h.ID)):
		case measuredNode(h, &hops[i], c):
			return ""
		case reading.HasResult(hops[i].Status):
			why = append(why, fmt.Sprintf("%s: nothing in the answer names it", h.ID))
		case !slices.ContainsFunc(why, func(w string) bool { return strings.HasSuffix(w, hops[i].Because) }):
			why = append(why, fmt.Sprintf("%s: %s", h.ID, hops[i].Because))
		}
	}
	return fmt.Sprintf("nothing of %s was measured: %s", c.Subject.NodeID, strings.Join(why[:min(len(why), 2)], "; "))
}

// measuredNode reports whether the hop's result shows something of the node: a step on it passed, or the platform's
// answer names it. A platform that gives one answer for every id shows nothing.
func measuredNode(h *hop.Hop, r *diag.HopResult, c *hop.Case) bool {
	return reading.HasResult(r.Status) && (slices.ContainsFunc(r.Steps, func(s diag.StepResult) bool {
		return s.Vantage == hop.Node && s.Fact != "" && s.Status == diag.StatusPass
	}) || (h.OfNode != nil && h.OfNode(c)))
}

// AnswerNamesNode reports whether the platform's answer for the node has the node's own name.
func AnswerNamesNode(c *hop.Case) bool {
	return strings.EqualFold(ReadModel(c, "node.id"), c.Subject.NodeID) ||
		strings.EqualFold(ReadModel(c, "node.hostname"), c.Subject.NodeID)
}
