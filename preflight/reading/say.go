package reading

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// Fail is a failing finding whose deciding fact is f.
func Fail(sig diag.Signal, f *diag.Fact, format string, args ...any) diag.Finding {
	return diag.Finding{
		Status: diag.StatusFail, Signal: sig, Failure: f.Failure, Evidence: []string{f.ID},
		Text: fmt.Sprintf(format, args...), Culprit: culprit(f),
	}
}

// Undecided is an inconclusive finding whose deciding fact is f: the fact does not answer what the hop asks.
func Undecided(f *diag.Fact, format string, args ...any) diag.Finding {
	return diag.Finding{
		Status: diag.StatusInconclusive, Failure: f.Failure, Evidence: []string{f.ID}, Because: fmt.Sprintf(format, args...),
	}
}

// Unmapped is undecided for an answer that lacks a field which the profile maps; the text names the field. A redirect
// is reported as a redirect instead.
func Unmapped(f *diag.Fact, format string, args ...any) diag.Finding {
	if Redirects(f) {
		return Redirected(f)
	}
	out := Undecided(f, format+" (see mapping.fields in the profile)", args...)
	out.Lack = diag.LackMapping
	return out
}

// UnknownWord is the finding for a state that this tool does not know, as other platforms have: neither a pass nor a
// failure.
func UnknownWord(f *diag.Fact, what, word string, known []string) diag.Finding {
	return Unmapped(f, "%s has the unknown value %q; known values: %s", what, word, strings.Join(known, ", "))
}

// Warn is a finding that does not fail the hop.
func Warn(sig diag.Signal, f *diag.Fact, format string, args ...any) diag.Finding {
	w := Fail(sig, f, format, args...)
	w.Status = diag.StatusWarn
	return w
}

// culprit names the shared thing at fault in a failing network probe: two probes with the same culprit are one fault.
func culprit(f *diag.Fact) string {
	if f.Request.CABundle != "" && (f.Failure == diag.TLSUnknownCA || InPhase(f, "trust")) {
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

// Throttled is the finding for a node's probe that a rate limiter refused. It says nothing about the node's identity.
func Throttled(f *diag.Fact, what string) diag.Finding {
	out := Fail(diag.SigEdgeRateLimited, f, "%s throttles %s: %s%s", Where(f), what, Saw(f), PauseOf(f))
	out.Culprit = f.Vantage + " throttled by " + HostOf(Target(f))
	return out
}

// CookieOf describes the operator's fault if an edge asks for a login: no cookie, or one that is rejected, since
// cookies expire.
func CookieOf(f *diag.Fact) string {
	if f.Request.Cookie.IsZero() {
		return "no edge cookie was given (auth.edge_cookie_file)"
	}
	return "the edge cookie of auth.edge_cookie_file is not accepted there; it may have expired"
}

// PauseOf describes how long a limiter asks to wait, "" if it does not say.
func PauseOf(f *diag.Fact) string {
	if f.HTTP == nil || f.HTTP.RetryAfterS == nil {
		return ""
	}
	return fmt.Sprintf("; it asks for a pause of %d s", *f.HTTP.RetryAfterS)
}

// Where returns the endpoint that a fact is about, without path and query.
func Where(f *diag.Fact) string {
	if f == nil {
		return "it"
	}
	return hop.EndpointOf(Target(f))
}

// Status returns the HTTP status of a fact, 0 if no answer came.
func Status(f *diag.Fact) int {
	if f == nil || f.HTTP == nil {
		return 0
	}
	return f.HTTP.Status
}

// Code returns the error code of an answer.
func Code(f *diag.Fact) string {
	if f == nil || f.HTTP == nil {
		return ""
	}
	if v := f.HTTP.Fields[hop.FieldErrorCode]; v != "" {
		return v
	}
	return f.HTTP.ErrorCode
}

// Unasked reports whether f did not ask for the named field, since this platform does not have it: the field's absence
// then shows nothing.
func Unasked(f *diag.Fact, name string) bool {
	return f != nil && f.Request.Op != "" && f.Request.Extract[name] == ""
}

// InPhase reports whether f failed in one of the phases.
func InPhase(f *diag.Fact, names ...string) bool {
	return slices.Contains(names, f.Phase)
}

// TaskAfter describes the status of a task that has no result, and how long the poll f took.
func TaskAfter(st string, f *diag.Fact) string {
	if st == "expired" {
		return fmt.Sprintf("task expired within %d ms", f.DurationMS)
	}
	return fmt.Sprintf("still %s after %d ms", st, f.DurationMS)
}

// Times is a number of times in words: once, twice, 3 times.
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
