package preflight

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// listenerAnswers reports whether the node's request without a certificate was answered.
func listenerAnswers(c *Case) bool {
	reach := c.Fact(diag.HopNodeRuntimeAPI, stepReach)
	return reach != nil && (reach.Passed() || listenerReplied(c, reach))
}

const (

	// culpritControlPlane is the culprit if neither the operator nor the node gets an answer.
	culpritControlPlane = "control plane"
	// culpritOperatorWay is the culprit if the platform answers the node, and the operator cannot reach any of it.
	culpritOperatorWay = "operator's way"
)

// deniesAccess reports whether f was refused with 401 or 403; a login page and a rate limiter's answer do not count. A
// health page is requested without a token: a platform may close it, which is not a fault.
func deniesAccess(f *diag.Fact) bool {
	return f != nil && !f.Throttled() && (status(f) == 401 || status(f) == 403) && f.Failure != diag.HTTPEdgeAuth
}

// describeClosedHealthPage describes an answer for which deniesAccess is true; only a 401 is about a login.
func describeClosedHealthPage(f *diag.Fact) string {
	if status(f) == 401 {
		return "wants a login (HTTP 401)"
	}
	return fmt.Sprintf("refuses a request without a token (HTTP %d)", status(f))
}

// Results of nodeHears.
const (
	unknownSide = iota
	answeredSide
	silentSide
)

// nodeHears reports whether the node gets an answer from its API. A refusal is an answer, also by TLS; so is the answer
// to a counter-probe that used another address or view. A request that never left the node is not evidence.
func nodeHears(c *Case) int {
	hears := func(f *diag.Fact) int {
		switch {
		case f == nil || f.Failure == diag.Cancelled || f.Failure.Local():
			return unknownSide
		case f.Passed(), inPhase(f, "mtls"), status(f) > 0 && status(f) < 500:
			return answeredSide
		case status(f) >= 500, inPhase(f, "tcp", "http"), f.Failure == diag.TLSClosed:
			return silentSide
		}
		return unknownSide
	}
	if wait := hears(c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)); wait != unknownSide {
		return wait // it reaches the API behind the listener
	}
	reach := c.Fact(diag.HopNodeRuntimeAPI, stepReach)
	if reach == nil {
		return unknownSide
	}
	for _, name := range []string{counterPinned, counterHostView, counterHostNetwork, counterFromOperator,
		counterProfileURL} {
		if hears(c.fact(reach.ID+"~"+name)) == answeredSide {
			return answeredSide
		}
	}
	if c.fact(reach.ID + "~" + counterBare).Passed() {
		return unknownSide // a connection that opens now is neither an answer nor silence
	}
	return hears(reach)
}

// edgeOf returns the address and port of a base URL, by the profile's pinned address if there is one: only the profile
// can show that two names are one edge.
func edgeOf(base, pin string) string {
	host, port, err := net.SplitHostPort(hostPortOf(base))
	if err != nil {
		return base
	}
	return net.JoinHostPort(cmp.Or(pin, host), port)
}

// culpritAgentURL is the culprit if the running agent uses another API than the profile's: the failure there and
// the difference are one fault.
const culpritAgentURL = "node GPUAAS_API_URL"

// listenerReplied reports whether a listener answered, even with a refusal: a node ingress's 400 or alert, the end of a
// connection without a certificate, a 404, a login page.
func listenerReplied(c *Case, f *diag.Fact) bool {
	s := status(f)
	if f.Request.Op == diag.OpTLS && f.Failure == diag.TLSNotTLS && strings.HasPrefix(f.Target, "http://") {
		return true // a plain listener, and no path to request
	}
	return !f.Throttled() && (inPhase(f, "mtls") || (s > 0 && s < 500) || endedUnshown(f) || pageAlone(c, f))
}

// pageAlone reports whether f is a health page that fails at an API that takes this node's task wait.
func pageAlone(c *Case, f *diag.Fact) bool {
	w := c.Fact(diag.HopNodeRecoveryStatus, stepTaskWait)
	failing := status(f) >= 500 || (status(f) == 0 && inPhase(f, "http") && !endedUnshown(f))
	return failing && ofPage(f) && w != nil && admitted(w) && sameEndpoint(target(f), target(w))
}

// gets describes what a failed request got.
func gets(f *diag.Fact) string {
	switch {
	case good(f):
		return "an answer that is not valid"
	case status(f) != 0:
		return "only an error"
	case f.Failure == diag.HTTPNotHTTP:
		return "no HTTP"
	case f.Failure == diag.TLSALPN:
		return "no HTTP/1.1"
	case distrusts(f) && inPhase(f, "tls"):
		return "a certificate that does not verify, and no answer"
	case f.Failure == diag.TLSProtocol, f.Failure == diag.TLSNotTLS:
		return "no TLS connection"
	}
	return "no answer"
}

// besidePath returns the side of a failure that is not the network's, else "".
func besidePath(c *Case, f *diag.Fact) diag.Side {
	if resolverAtFault(c, f) {
		return diag.SideNode
	}
	return behindListener(f)
}

// behindListener returns the platform's side if the connection was made but no valid answer came over it, else "".
func behindListener(f *diag.Fact) diag.Side {
	if status(f) != 0 || inPhase(f, "http", "ws") {
		return diag.SidePlatform
	}
	return ""
}

// presented describes the server's certificate.
func presented(f *diag.Fact) string {
	if f.TLS == nil || len(f.TLS.Chain) == 0 {
		return ""
	}
	leaf := f.TLS.Chain[0]
	return fmt.Sprintf("; presented: %s by %s, valid until %s", leaf.Subject, leaf.Issuer,
		leaf.NotAfter.Format(time.DateOnly))
}
