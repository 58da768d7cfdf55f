// Package reading tells what one fact, or the repeats of one request, show: what a server said and who it may be, what
// came too late or not at all, and how that is said.
package reading

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// Addresses parses a JSON list, or addresses separated by commas or spaces.
func Addresses(text string) []string {
	var out []string
	if bounded.Unmarshal([]byte(text), &out, bounded.Answer()) != nil {
		out = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	}
	for i := range out {
		out[i] = PlainAddress(out[i])
	}
	return out
}

// PlainAddress returns an address in canonical form, without a prefix length; other text is returned as it is.
func PlainAddress(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().String()
	}
	return text
}

// Count parses a number; nil if the text has none.
func Count(text string) *int {
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
}

// TookCertificate reports whether a listener asked for a certificate, got one, and gave an answer that only accepted
// nodes get.
func TookCertificate(f *diag.Fact) bool {
	return AsksForCert(f) && f.TLS.CertSent != "" && (Good(f) || SessionNotFound(f) || Code(f) == "upgrade_required")
}

// HasResult reports whether a hop passed, warned or failed.
func HasResult(s diag.Status) bool {
	return s == diag.StatusPass || s == diag.StatusWarn || s == diag.StatusFail
}

// HopNamed returns the result of a hop, or an empty one if the report does not have it.
func HopNamed(hops []diag.HopResult, id diag.HopID) *diag.HopResult {
	for i := range hops {
		if hops[i].ID == id {
			return &hops[i]
		}
	}
	return &diag.HopResult{}
}

// NoCode503 reports whether a 503 without an error code came: any server on the path may have refused the request.
func NoCode503(f *diag.Fact) bool { return Status(f) == 503 && Code(f) == "" }

// HasEffect reports whether a request may change something where it goes.
func HasEffect(req *diag.Request) bool { return req.Method != "" && req.Method != "GET" }

// WorthATry reports whether the health page answered, so that the service itself is worth a try. A login and a rate
// limiter in front of it would answer the step as well.
func WorthATry(o *hop.Overrule, c *hop.Case) bool {
	f := c.FactByID(o.Page)
	return f != nil && hop.Conclusive(f) && OfPage(f)
}

// OfPage reports whether a failing health page was reached, so that its failure may be the page's alone. A silence over
// a path that lost packets is the path's.
func OfPage(f *diag.Fact) bool {
	return !f.Throttled() && ReachedServer(f) && (!GotNoAnswer(f) || FullyAcknowledged(f))
}

// Upgraded reports whether a terminal session was opened, whatever happened in it.
func Upgraded(f *diag.Fact) bool { return f != nil && f.WS != nil && f.WS.Upgraded }

// GotShellState reports whether the browser received its terminal's state: ready, data, or an error of its shell. The
// shell's hop judges later failures.
func GotShellState(f *diag.Fact) bool {
	return Upgraded(f) &&
		(f.WS.FirstFrame == "ready" || f.WS.FirstFrame == "data" || diag.ShellCode(f.WS.FrameCode))
}

// PongCame reports whether a ping was answered while the session was silent, so that the path works.
func PongCame(f *diag.Fact) bool { return f != nil && f.WS != nil && f.WS.PingMS > 0 }

// Good reports whether an answer is a 2xx: health pages answer 200 or 204.
func Good(f *diag.Fact) bool { return Status(f)/100 == 2 }

// NoTrustPage reports whether a platform has no trust page: its path does not exist, or gives only an HTML page.
func NoTrustPage(f *diag.Fact) bool {
	s := Status(f)
	return s == 404 || s == 405 || s == 501 || (s/100 == 2 && (f.Failure == diag.HTTPEdgePage ||
		(f.Failure == diag.HTTPMalformed && !PlatformSpeaks(f))))
}

// ReachedServer reports whether the server behind the name answered, and not an edge that asks for a login.
func ReachedServer(f *diag.Fact) bool {
	return (Status(f) != 0 || InPhase(f, "http")) && f.Failure != diag.HTTPEdgeAuth
}

// NotKnown reports whether a 404 may mean that the platform has no such object. An HTML page, a missing route and JSON
// without an error code of the platform may come from a server that never passed the request on.
func NotKnown(f *diag.Fact) bool {
	return Status(f) == 404 && f.Failure == diag.HTTPStatus && !ForeignPage(f) && Code(f) != "route_not_found" &&
		!Unsigned(f) && (Code(f) == "" || PlatformCode(f) || deniesObject(f))
}

// SessionNotFound reports whether the listener accepted the node and looked up the session, which does not exist.
func SessionNotFound(f *diag.Fact) bool { return Code(f) == "session_not_found" }

// RootFolder is the node's root file system, as a login sees it: the agent's unit may see it read-only.
const RootFolder = "/"

// NoAnswer reports whether f got no answer although one was due. A refusal is an answer, and a request that the end of
// the walk cut short is not due.
func NoAnswer(f *diag.Fact, ended diag.EndedBy) bool {
	switch {
	case f.Passed(), hop.Lost(f), NotAllowed(f), f.Failure.Local(), f.Failure == diag.Unknown,
		f.Failure == diag.HTTPEdgeAuth,
		Distrusts(f):
		return false
	case f.Failure == diag.Cancelled:
		return ended == diag.EndedCompleted
	case Status(f) != 0:
		return Status(f) >= 500
	}
	return f.Phase == "" || InPhase(f, "dns", "tcp", "tls", "http", "poll")
}

// Redirects reports whether f was answered with a redirect, other than one to a login.
func Redirects(f *diag.Fact) bool { return f.Passed() && Status(f)/100 == 3 }

// Redirected is the finding for a request that was redirected: no answer lacks a field.
func Redirected(f *diag.Fact) diag.Finding {
	out := Undecided(f, "%s sends the request elsewhere: %s; nothing of the platform was seen", Where(f), Saw(f))
	out.Lack = diag.LackPlatform
	return out
}

// Loopback reports whether a connection stayed on its machine, or none was made.
func Loopback(f *diag.Fact) bool {
	if f.TCP == nil {
		return true // none was made
	}
	a, err := netip.ParseAddrPort(f.TCP.Remote)
	return err == nil && a.Addr().IsLoopback()
}
