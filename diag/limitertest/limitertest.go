// Package limitertest has answers of limiters, and answers that resemble them, for the tests of all code that reads
// HTTP answers: the probe, the agent and the judges.
package limitertest

import (
	"maps"
	"net/http"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Answer is one HTTP answer. Code is the error code in the body's envelope, "" if it has none.
type Answer struct {
	Name   string
	Status int
	Header map[string]string
	Body   string
	Code   string
	Want   diag.Limiter
}

// ServeHTTP sends the answer to every request.
func (a Answer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for k, v := range a.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body)) // a client that disconnected early needs no error
}

const (
	typeJSON = "application/json"
	typeHTML = "text/html; charset=UTF-8"
	typeText = "text/plain; charset=UTF-8"
)

func answer(name string, status int, kind, body, code string, want diag.Limiter, header ...string) Answer {
	h := map[string]string{"Content-Type": kind}
	for i := 0; i+1 < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	return Answer{Name: name, Status: status, Header: h, Body: body, Code: code, Want: want}
}

// with returns a copy of a with another status.
func (a Answer) with(status int) Answer {
	a.Status, a.Header = status, maps.Clone(a.Header)
	a.Name += " with another status"
	return a
}

// Limiters are refusals by limiters of every kind, some with statuses that look like denials of an identity.
func Limiters() []Answer {
	envelope := answer("the platform's own limiter", 403, typeJSON,
		`{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`,
		"rate_limit_exceeded", diag.LimiterRate, "Retry-After", "7")
	page := answer("Cloudflare 1015, bare", 429, typeText, "error code: 1015", "", diag.LimiterRate, "Server",
		"cloudflare", "Cf-Ray", "8a-TXL")
	bare := page.with(403)
	bare.Want = diag.LimiterEdgePage
	html := answer("Cloudflare 1015, a page", 403, typeHTML,
		`<!DOCTYPE html><html><title>Access denied</title><span class="cf-error-code">1015</span></html>`,
		"", diag.LimiterEdgePage, "Server", "cloudflare", "Cf-Ray", "8a-TXL", "Retry-After", "60")
	challenge := answer("Cloudflare challenge", 403, typeHTML,
		"<!DOCTYPE html><html><title>Just a moment</title></html>",
		"", diag.LimiterChallenge, "Cf-Mitigated", "challenge", "Server", "cloudflare")
	return []Answer{
		envelope, envelope.with(401), envelope.with(404), envelope.with(409), envelope.with(503),
		answer("429 without a word", 429, typeHTML, "", "", diag.LimiterRate),
		answer("a code in other letters", 403, typeJSON, `{"error":{"code":"RATE-LIMITED"}}`, "RATE-LIMITED",
			diag.LimiterRate),
		answer("a code at the top", 403, typeJSON, `{"code":"too_many_requests"}`, "", diag.LimiterRate),
		answer("an error that is a word", 401, typeJSON, `{"error":"rate_limit_exceeded"}`, "", diag.LimiterRate),
		answer("Cloudflare 1015, JSON", 403, "application/problem+json",
			`{"status":403,"error_code":1015,"error_category":"rate_limit"}`,
			"", diag.LimiterRate),
		page, bare, html, html.with(401), html.with(503),
		challenge, challenge.with(401), challenge.with(503),
		answer("a challenge without its header", 403, typeHTML, `<html><script>window._cf_chl_opt={}</script></html>`,
			"", diag.LimiterChallenge),
		answer("a captcha", 403, typeHTML, `<html><div class="g-recaptcha"></div></html>`, "", diag.LimiterChallenge),
		answer("AWS WAF asks for a captcha", 405, typeHTML, "", "", diag.LimiterChallenge, "X-Amzn-Waf-Action", "captcha"),
		answer("AWS WAF asks for a script", 202, typeHTML, "", "", diag.LimiterChallenge, "X-Amzn-Waf-Action", "challenge"),
		answer("an empty request budget", 403, typeText, "", "", diag.LimiterRate, "X-RateLimit-Remaining", "0"),
		answer("Envoy's limiter", 503, typeText, "", "", diag.LimiterRate, "X-Envoy-Ratelimited", "true"),
		answer("a 503 of a limiter", 503, typeHTML, "<html>Too Many Requests</html>", "", diag.LimiterRate,
			"Retry-After", "10"),
	}
}

// Others are answers that resemble a limiter's, but are not a limiter's.
func Others() []Answer {
	return []Answer{
		answer("a denial", 403, typeJSON, `{"error":{"code":"revoked"}}`, "revoked", diag.NoLimiter),
		answer("a denial that spends the last request", 403, typeJSON, `{"error":{"code":"revoked"}}`, "revoked",
			diag.NoLimiter,
			"X-RateLimit-Remaining", "0", "Retry-After", "10"),
		answer("a denial whose message speaks of a limit", 403, typeJSON,
			`{"error":{"code":"fenced","message":"rate limit exceeded"}}`, "fenced", diag.NoLimiter, "Retry-After", "10"),
		answer("a 503 that knows when it is back", 503, typeHTML, "<html>Service Unavailable</html>", "",
			diag.NoLimiter, "Retry-After", "10"),
		answer("Cloudflare 1020", 403, typeText, "error code: 1020", "", diag.NoLimiter, "Server", "cloudflare"),
		answer("another number", 403, typeText, "error code: 10150", "", diag.NoLimiter, "Server", "cloudflare"),
		answer("a login with a captcha", 403, typeHTML,
			`<html><input type="password"><div class="g-recaptcha"></div></html>`, "", diag.NoLimiter),
		answer("a good answer", 200, typeJSON, `{"error":"rate_limit_exceeded"}`, "", diag.NoLimiter),
		answer("a page about limits", 200, typeHTML, "<html>error code: 1015</html>", "", diag.NoLimiter),
		answer("no code at all", 403, typeHTML, "<html>403 Forbidden</html>", "", diag.NoLimiter),
		answer("a body that breaks off", 401, typeJSON, `{"error":{"code":"rate_limit`, "", diag.NoLimiter),
	}
}
