package reading

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

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

// TaskAfter describes the status of a task that has no result, and how long the poll f took.
func TaskAfter(st string, f *diag.Fact) string {
	if st == "expired" {
		return fmt.Sprintf("task expired within %d ms", f.DurationMS)
	}
	return fmt.Sprintf("still %s after %d ms", st, f.DurationMS)
}
