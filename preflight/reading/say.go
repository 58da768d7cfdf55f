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

// loginCookies are the names of the cookies by which edges know a client that has logged in.
var loginCookies = map[string]string{
	"Cloudflare Access": "CF_Authorization", "Pomerium": "_pomerium", "oauth2-proxy": "_oauth2_proxy",
	"Authelia": "authelia_session", "AWS Cognito": "AWSELBAuthSessionCookie-0",
}

// CookieOf describes the operator's fault if an edge asks for a login: no cookie, or one that is rejected, since
// cookies expire.
func CookieOf(f *diag.Fact) string {
	if f.Request.Cookie.IsZero() {
		if f.HTTP != nil && loginCookies[f.HTTP.Edge] != "" {
			return fmt.Sprintf("no edge cookie was given (auth.edge_cookie_file: %s has it as %s)", f.HTTP.Edge,
				loginCookies[f.HTTP.Edge])
		}
		return "no edge cookie was given (auth.edge_cookie_file)"
	}
	return "the edge cookie of auth.edge_cookie_file is not accepted there; it may have expired"
}

// EdgeWords describes the edge whose own page an answer is, and quotes it; "" if it is not known.
func EdgeWords(f *diag.Fact) string {
	switch {
	case f.HTTP == nil || f.HTTP.Edge == "":
		return ""
	case f.Failure == diag.HTTPEdgeAuth:
		return "a login by " + f.HTTP.Edge
	case f.HTTP.EdgeSays == "":
		return "a page of the edge (" + f.HTTP.Edge + ")"
	}
	return fmt.Sprintf("the edge (%s) says: %s", f.HTTP.Edge, OneLine(f.HTTP.EdgeSays))
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
