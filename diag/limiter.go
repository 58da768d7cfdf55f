package diag

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Refusal holds the parts of an HTTP answer by which a limiter is recognized. Header returns a header's first value.
// Code is the error's code if the caller knows its place in the body, else "".
type Refusal struct {
	Status int
	Header func(name string) string
	Code   string
	Body   []byte
}

// Limiter is the kind of component that rejected a request because of its rate or its appearance, "" for any other
// answer.
type Limiter string

// The kinds. Each rejects the client before the platform has authenticated it, so none is evidence about an identity.
const (
	NoLimiter       Limiter = ""
	LimiterRate     Limiter = "rate_limit"     // a rate limiter of the platform or of an edge
	LimiterEdgePage Limiter = "edge_rate_page" // an edge's own "too many requests" page, such as Cloudflare's 1015
	// an edge's challenge page: a captcha or a script, which no API client solves
	LimiterChallenge Limiter = "edge_challenge"
)

const (
	statusTooManyRequests    = 429
	statusForbidden          = 403
	statusServiceUnavailable = 503

	// limiterBody is how many bytes of an answer are searched; limiters' pages are small.
	limiterBody = 64 << 10
)

// limiterCodes are the error codes that limiters use, in lower case with underscores. In Cloudflare's JSON errors the
// code is the number of its error page.
var limiterCodes = [...]string{
	"rate_limit_exceeded", "rate_limited", "rate_limit", "rate_limit_error", "ratelimited", "too_many_requests",
	"request_rate_exceeded",
	"throttled", "throttling", "captcha_required", "challenge_required", "1015",
}

// LimiterCode reports whether an error code is a limiter's, in any case, and with dashes, spaces or underscores.
func LimiterCode(code string) bool {
	return code != "" && slices.Contains(limiterCodes[:],
		strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(code), "-", "_"), " ", "_"))
}

// limiterTexts are phrases in lower case from limiters' plain-text or HTML refusals; they count only with a
// Retry-After.
var limiterTexts = [...]string{"rate limit", "rate-limit", "ratelimit", "too many requests", "being rate limited"}

// challengeMarks are parts, in lower case, of the pages with which an edge checks that the client is a browser.
var challengeMarks = [...]string{
	"_cf_chl_opt", "/cdn-cgi/challenge-platform/h/", "challenges.cloudflare.com/turnstile", "cf-turnstile",
	"g-recaptcha", "google.com/recaptcha/", "h-captcha", "hcaptcha.com/", "px-captcha", "awswafcaptcha", "awswaf.com/",
}

// LimitedBy returns the kind of limiter that sent an answer. An error code that is not a limiter's means that the
// platform refused, whatever the body looks like; only status 429 and the headers of a challenge outrank it.
func LimitedBy(r Refusal) Limiter {
	switch {
	case r.Header("Cf-Mitigated") == "challenge", wafChallenge(r.Header("X-Amzn-Waf-Action")):
		return LimiterChallenge
	case r.Status < 400:
		return NoLimiter
	case r.Status == statusTooManyRequests, LimiterCode(r.Code), r.Code == "" && limiterJSON(r.Body):
		return LimiterRate
	case r.Code != "":
		return NoLimiter
	case r.Header("X-Envoy-Ratelimited") != "", exhausted(r):
		return LimiterRate
	case strings.Contains(r.Header("Content-Type"), "json"):
		return NoLimiter
	}
	body := strings.ToLower(string(r.Body[:min(len(r.Body), limiterBody)]))
	switch {
	case edgeRatePage(body):
		return LimiterEdgePage
	case asksToLogIn(body):
		return NoLimiter
	case strings.Contains(body, "<html") && containsOneOf(body, challengeMarks[:]):
		return LimiterChallenge
	case refusesForNow(r) && r.Header("Retry-After") != "" && containsOneOf(body, limiterTexts[:]):
		return LimiterRate
	}
	return NoLimiter
}

// limiterFields are where JSON errors commonly have their code: at the top, or in an object "error". The decoder skips
// all other fields without storing them, so the memory for an answer is bounded by its size, however many fields it
// has.
type limiterFields struct {
	Code          json.RawMessage `json:"code"`
	ErrorCode     json.RawMessage `json:"error_code"`
	Error         json.RawMessage `json:"error"`
	ErrorName     json.RawMessage `json:"error_name"`
	ErrorCategory json.RawMessage `json:"error_category"`
	Type          json.RawMessage `json:"type"`
}

// limiterJSON looks for a limiter's code in a JSON error. A larger body than limiterBody is not a limiter's.
func limiterJSON(body []byte) bool {
	if len(body) > limiterBody || !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return false
	}
	var top, inner limiterFields
	if json.Unmarshal(body, &top) != nil {
		return false
	}
	_ = json.Unmarshal(top.Error, &inner) // an error that is not an object has no fields
	for _, doc := range [...]limiterFields{top, inner} {
		for _, value := range [...]json.RawMessage{
			doc.Code, doc.ErrorCode, doc.Error, doc.ErrorName, doc.ErrorCategory, doc.Type,
		} {
			if LimiterCode(strings.Trim(string(value), `"`)) {
				return true
			}
		}
	}
	return false
}

// wafChallenge recognizes the challenges of AWS WAF, which come with status 202 or 405.
func wafChallenge(action string) bool { return action == "challenge" || action == "captcha" }

// refusesForNow reports whether limiters use the status besides 429. A 503 alone comes from the service itself.
func refusesForNow(r Refusal) bool {
	return r.Status == statusForbidden || r.Status == statusServiceUnavailable
}

// exhausted reports whether the headers of a refusal report a remaining request budget of zero.
func exhausted(r Refusal) bool {
	return refusesForNow(r) && (r.Header("X-Ratelimit-Remaining") == "0" || r.Header("Ratelimit-Remaining") == "0" ||
		r.Header("X-Rate-Limit-Remaining") == "0")
}

// edgeRatePage recognizes Cloudflare's page 1015: as plain text, or as HTML with the number in an element.
func edgeRatePage(body string) bool {
	for _, before := range [...]string{"error code: 1015", "error 1015", `cf-error-code">1015`} {
		_, after, found := strings.Cut(body, before)
		if found && (after == "" || after[0] < '0' || after[0] > '9') {
			return true
		}
	}
	return false
}

// asksToLogIn reports whether a page has a password field: login forms may have captchas as well.
func asksToLogIn(body string) bool {
	return containsOneOf(body, []string{`type="password"`, `type='password'`, "type=password"})
}

func containsOneOf(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// Throttled reports whether a limiter ended f. Reports of older builds have a limiter's code under http_status and
// ws_upgrade_rejected.
func (f *Fact) Throttled() bool {
	switch {
	case f == nil:
		return false
	case f.Failure == HTTPRateLimited:
		return true
	case f.WS != nil && (LimiterCode(f.WS.FrameCode) || LimiterCode(f.WS.CloseReason)):
		return true
	case f.HTTP == nil || f.HTTP.Status < 400:
		return false
	}
	return LimiterCode(f.HTTP.ErrorCode) || LimiterCode(f.HTTP.Fields["error.code"])
}
