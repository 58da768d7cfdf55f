package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// fail is a failing finding whose deciding fact is f.
func fail(sig diag.Signal, f *diag.Fact, format string, args ...any) diag.Finding {
	return diag.Finding{
		Status: diag.StatusFail, Signal: sig, Failure: f.Failure, Evidence: []string{f.ID},
		Text: fmt.Sprintf(format, args...), Culprit: culprit(f),
	}
}

// undecided is an inconclusive finding whose deciding fact is f: the fact does not answer what the hop asks.
func undecided(f *diag.Fact, format string, args ...any) diag.Finding {
	return diag.Finding{
		Status: diag.StatusInconclusive, Failure: f.Failure, Evidence: []string{f.ID}, Because: fmt.Sprintf(format, args...),
	}
}

// unmapped is undecided for an answer that lacks a field which the profile maps; the text names the field. A redirect
// is reported as a redirect instead.
func unmapped(f *diag.Fact, format string, args ...any) diag.Finding {
	if redirects(f) {
		return redirected(f)
	}
	out := undecided(f, format+" (see mapping.fields in the profile)", args...)
	out.Lack = diag.LackMapping
	return out
}

// unknownWord is the finding for a state that this tool does not know, as other platforms have: neither a pass nor a
// failure.
func unknownWord(f *diag.Fact, what, word string, known []string) diag.Finding {
	return unmapped(f, "%s has the unknown value %q; known values: %s", what, word,
		strings.Join(known, ", "))
}

// warn is a finding that does not fail the hop.
func warn(sig diag.Signal, f *diag.Fact, format string, args ...any) diag.Finding {
	w := fail(sig, f, format, args...)
	w.Status = diag.StatusWarn
	return w
}

// culprit names the shared thing at fault in a failing network probe: two probes with the same culprit are one fault.
func culprit(f *diag.Fact) string {
	if f.Request.CABundle != "" && (f.Failure == diag.TLSUnknownCA || inPhase(f, "trust")) {
		return f.Vantage + " file " + f.Request.CABundle
	}
	switch f.Failure {
	case diag.DNSTimeout, diag.DNSRefused, diag.DNSServFail:
		if f.DNS != nil {
			return f.Vantage + " resolver " + f.DNS.Server
		}
	case diag.DNSNXDomain, diag.DNSNoAnswer:
		if f.DNS != nil {
			return f.Vantage + " name " + f.DNS.Name
		}
	case diag.TCPTimeout, diag.TCPRefused, diag.TCPNoRoute, diag.TCPNetUnreachable:
		if f.TCP != nil {
			return f.Vantage + " to " + f.TCP.Remote
		}
	}
	return ""
}

// saw describes what a fact measured: the failure, its details, and how long it took.
func saw(f *diag.Fact) string {
	if f == nil {
		return "not measured"
	}
	text := "passed"
	switch {
	case f.Failure == diag.OK && f.HTTP != nil:
		text = "HTTP " + strconv.Itoa(f.HTTP.Status)
		if f.HTTP.Location != "" {
			text += " to " + f.HTTP.Location
		}
	case f.Failure != diag.OK && f.Phase != "" && f.Phase != "format": // the failure has that word
		text = string(f.Failure) + " in " + f.Phase
	case f.Failure != diag.OK:
		text = string(f.Failure)
	}
	var more []string
	if f.Failure != diag.OK && f.HTTP != nil && f.HTTP.Status != 0 {
		more = append(more, "HTTP "+strconv.Itoa(f.HTTP.Status))
		if f.HTTP.Location != "" {
			more = append(more, "to "+f.HTTP.Location)
		}
		if f.HTTP.ErrorCode != "" {
			more = append(more, f.HTTP.ErrorCode)
		}
	}
	if f.Errno != "" {
		more = append(more, f.Errno)
	}
	if f.Failure == diag.TLSALPN {
		more = append(more, "it does not take HTTP/1.1, which was offered by ALPN")
	}
	if f.Failure == diag.TLSProtocol && f.Detail != "" { // which alert it was
		more = append(more, oneLine(f.Detail))
	}
	if f.DNS != nil && f.Phase == "dns" && f.DNS.Server != "" {
		more = append(more, "asked "+f.DNS.Server)
	}
	if own := resolverWords(f); own != "" {
		more = append(more, own)
	}
	if f.DNS != nil && f.Phase == "dns" && f.DNS.Truncated {
		more = append(more, "its answer over UDP is truncated, and the query over TCP failed")
	}
	if differ := nameServersDiffer(f.DNS); differ != "" && f.Failure != diag.OK && inPhase(f, "dns", "tcp", "tls") {
		more = append(more, "its name servers do not agree: "+differ)
	}
	if f.TCP != nil && f.Phase == "tcp" {
		more = append(more, dialled(f)...)
		if f.TCP.ProhibitedBy != "" {
			more = append(more, f.TCP.ProhibitedBy+" answers that it is administratively prohibited (ICMPv6)")
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text + " after " + strconv.FormatInt(int64(f.DurationMS), 10) + " ms"
}

// throttled is the finding for a node's probe that a rate limiter refused. It says nothing about the node's identity.
func throttled(f *diag.Fact, what string) diag.Finding {
	out := fail(diag.SigEdgeRateLimited, f, "%s throttles %s: %s%s", where(f), what, saw(f), pauseOf(f))
	out.Culprit = f.Vantage + " throttled by " + hostOf(target(f))
	return out
}

// cookieOf describes the operator's fault if an edge asks for a login: no cookie, or one that is rejected, since
// cookies expire.
func cookieOf(f *diag.Fact) string {
	if f.Request.Cookie.IsZero() {
		return "no edge cookie was given (auth.edge_cookie_file)"
	}
	return "the edge cookie of auth.edge_cookie_file is not accepted there; it may have expired"
}

// pauseOf describes how long a limiter asks to wait, "" if it does not say.
func pauseOf(f *diag.Fact) string {
	if f.HTTP == nil || f.HTTP.RetryAfterS == nil {
		return ""
	}
	return fmt.Sprintf("; it asks for a pause of %d s", *f.HTTP.RetryAfterS)
}

// where returns the endpoint that a fact is about, without path and query.
func where(f *diag.Fact) string {
	if f == nil {
		return "it"
	}
	return endpointOf(target(f))
}

// status returns the HTTP status of a fact, 0 if no answer came.
func status(f *diag.Fact) int {
	if f == nil || f.HTTP == nil {
		return 0
	}
	return f.HTTP.Status
}

// code returns the error code of an answer.
func code(f *diag.Fact) string {
	if f == nil || f.HTTP == nil {
		return ""
	}
	if v := f.HTTP.Fields[fieldErrorCode]; v != "" {
		return v
	}
	return f.HTTP.ErrorCode
}

// unasked reports whether f did not ask for the named field, since this platform does not have it: the field's absence
// then shows nothing.
func unasked(f *diag.Fact, name string) bool {
	return f != nil && f.Request.Op != "" && f.Request.Extract[name] == ""
}

// inPhase reports whether f failed in one of the phases.
func inPhase(f *diag.Fact, names ...string) bool {
	return slices.Contains(names, f.Phase)
}

// taskAfter describes the status of a task that has no result, and how long the poll f took.
func taskAfter(st string, f *diag.Fact) string {
	if st == "expired" {
		return fmt.Sprintf("task expired within %d ms", f.DurationMS)
	}
	return fmt.Sprintf("still %s after %d ms", st, f.DurationMS)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
