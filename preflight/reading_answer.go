package preflight

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// addresses parses a JSON list, or addresses separated by commas or spaces.
func addresses(text string) []string {
	var out []string
	if bounded.Unmarshal([]byte(text), &out, bounded.Answer()) != nil {
		out = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	}
	for i := range out {
		out[i] = plainAddress(out[i])
	}
	return out
}

// plainAddress returns an address in canonical form, without a prefix length; other text is returned as it is.
func plainAddress(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().String()
	}
	return text
}

func count(text string) *int {
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
}

// tookCertificate reports whether a listener asked for a certificate, got one, and gave an answer that only accepted
// nodes get.
func tookCertificate(f *diag.Fact) bool {
	return asksForCert(f) && f.TLS.CertSent != "" && (good(f) || sessionNotFound(f) || code(f) == "upgrade_required")
}

// hasResult reports whether a hop passed, warned or failed.
func hasResult(s diag.Status) bool {
	return s == diag.StatusPass || s == diag.StatusWarn || s == diag.StatusFail
}

// hopNamed returns the result of a hop, or an empty one if the report does not have it.
func hopNamed(hops []diag.HopResult, id diag.HopID) *diag.HopResult {
	for i := range hops {
		if hops[i].ID == id {
			return &hops[i]
		}
	}
	return &diag.HopResult{}
}

// noCode503 reports whether a 503 without an error code came: any server on the path may have refused the request.
func noCode503(f *diag.Fact) bool { return status(f) == 503 && code(f) == "" }

func hasEffect(req *diag.Request) bool { return req.Method != "" && req.Method != "GET" }

// worthATry reports whether the health page answered, so that the service itself is worth a try. A login and a rate limiter
// in front of it would answer the step as well.
func worthATry(o *Overrule, c *Case) bool {
	f := c.fact(o.Page)
	return f != nil && conclusive(f) && ofPage(f)
}

// ofPage reports whether a failing health page was reached, so that its failure may be the page's alone. A silence over
// a path that lost packets is the path's.
func ofPage(f *diag.Fact) bool {
	return !f.Throttled() && reachedServer(f) && (!gotNoAnswer(f) || fullyAcknowledged(f))
}

// upgraded reports whether a terminal session was opened, whatever happened in it.
func upgraded(f *diag.Fact) bool { return f != nil && f.WS != nil && f.WS.Upgraded }

// gotShellState reports whether the browser received its terminal's state: ready, data, or an error of its shell. The
// shell's hop judges later failures.
func gotShellState(f *diag.Fact) bool {
	return upgraded(f) &&
		(f.WS.FirstFrame == "ready" || f.WS.FirstFrame == "data" || diag.ShellCode(f.WS.FrameCode))
}

// pongCame reports whether a ping was answered while the session was silent, so that the path works.
func pongCame(f *diag.Fact) bool { return f != nil && f.WS != nil && f.WS.PingMS > 0 }

// good reports whether an answer is a 2xx: health pages answer 200 or 204.
func good(f *diag.Fact) bool { return status(f)/100 == 2 }

// noTrustPage reports whether a platform has no trust page: its path does not exist, or gives only an HTML page.
func noTrustPage(f *diag.Fact) bool {
	s := status(f)
	return s == 404 || s == 405 || s == 501 || (s/100 == 2 && (f.Failure == diag.HTTPEdgePage ||
		(f.Failure == diag.HTTPMalformed && !platformSpeaks(f))))
}

// reachedServer reports whether the server behind the name answered, and not an edge that asks for a login.
func reachedServer(f *diag.Fact) bool {
	return (status(f) != 0 || inPhase(f, "http")) && f.Failure != diag.HTTPEdgeAuth
}

// notKnown reports whether a 404 may mean that the platform has no such object. An HTML page, a missing route and JSON
// without an error code of the platform may come from a server that never passed the request on.
func notKnown(f *diag.Fact) bool {
	return status(f) == 404 && f.Failure == diag.HTTPStatus && !foreignPage(f) && code(f) != "route_not_found" &&
		!unsigned(f) && (code(f) == "" || platformCode(f) || deniesObject(f))
}

// sessionNotFound reports whether the listener accepted the node and looked up the session, which does not exist.
func sessionNotFound(f *diag.Fact) bool { return code(f) == "session_not_found" }

// rootFolder is the node's root file system, as a login sees it: the agent's unit may see it read-only.
const rootFolder = "/"

func orUnknown(s string) string { return cmp.Or(s, "no reason given") }

func resent(f *diag.Fact) bool { return f.TCP != nil && f.TCP.Resent != nil && *f.TCP.Resent > 0 }

// maxCause bounds what a finding quotes, in runes. The end of an error is its most specific part, so the end is kept.
const maxCause = 200

// oneLine returns text on one line of bounded length, without characters that control a terminal or change how others
// are displayed.
func oneLine(text string) string {
	obeyed := func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) }
	if len(text) <= maxCause && !strings.ContainsFunc(text, obeyed) {
		return text
	}
	text = strings.Join(strings.FieldsFunc(text, obeyed), " ")
	if runes := []rune(text); len(runes) > maxCause {
		return "..." + string(runes[len(runes)-maxCause+3:])
	}
	return text
}

// noAnswer reports whether f got no answer although one was due. A refusal is an answer, and a request that the end of
// the walk cut short is not due.
func noAnswer(f *diag.Fact, ended diag.EndedBy) bool {
	switch {
	case f.Passed(), lost(f), notAllowed(f), f.Failure.Local(), f.Failure == diag.Unknown, f.Failure == diag.HTTPEdgeAuth,
		distrusts(f):
		return false
	case f.Failure == diag.Cancelled:
		return ended == diag.EndedCompleted
	case status(f) != 0:
		return status(f) >= 500
	}
	return f.Phase == "" || inPhase(f, "dns", "tcp", "tls", "http", "poll")
}

// redirects reports whether f was answered with a redirect, other than one to a login.
func redirects(f *diag.Fact) bool { return f.Passed() && status(f)/100 == 3 }

// redirected is the finding for a request that was redirected: no answer lacks a field.
func redirected(f *diag.Fact) diag.Finding {
	out := undecided(f, "%s sends the request elsewhere: %s; nothing of the platform was seen", where(f), saw(f))
	out.Lack = diag.LackPlatform
	return out
}
