package diag

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Refusal is an HTTP answer as far as a limiter can be known by it. Header returns a header's first value; Code is the
// error's code where the caller knows its place in the body, else "".
type Refusal struct {
	Status int
	Header func(name string) string
	Code   string
	Body   []byte
}

// Limiter is the kind of component that refused a request for its rate or its looks, "" for any other answer.
type Limiter string

// The kinds. Each refuses the client before the platform has seen who asks, so none is a word on an identity.
const (
	NoLimiter        Limiter = ""
	LimiterRate      Limiter = "rate_limit"     // a limiter of the platform or of an edge
	LimiterEdgePage  Limiter = "edge_rate_page" // an edge's own "too many requests" page, such as Cloudflare's 1015
	LimiterChallenge Limiter = "edge_challenge" // an edge wants a captcha or a script solved, which no API client does
)

const (
	statusTooManyRequests    = 429
	statusForbidden          = 403
	statusServiceUnavailable = 503

	// limiterBody is how much of an answer is searched; pages of limiters are small.
	limiterBody = 64 << 10
)

// limiterCodes are the error codes that limiters use, in lower case with underscores. Cloudflare's JSON errors have
// its page's number as their code.
var limiterCodes = [...]string{
	"rate_limit_exceeded", "rate_limited", "rate_limit", "rate_limit_error", "ratelimited", "too_many_requests",
	"request_rate_exceeded",
	"throttled", "throttling", "captcha_required", "challenge_required", "1015",
}

// LimiterCode reports whether an error code is a limiter's, in any case, with dashes, spaces or underscores.
func LimiterCode(code string) bool {
	return code != "" && slices.Contains(limiterCodes[:],
		strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(code), "-", "_"), " ", "_"))
}

// limiterTexts are phrases of a limiter's plain-text or HTML refusal, which also has a Retry-After. Lower case.
var limiterTexts = [...]string{"rate limit", "rate-limit", "ratelimit", "too many requests", "being rate limited"}

// challengeMarks are parts of the pages on which a browser has to prove that it is one. Lower case.
var challengeMarks = [...]string{
	"_cf_chl_opt", "/cdn-cgi/challenge-platform/h/", "challenges.cloudflare.com/turnstile", "cf-turnstile",
	"g-recaptcha", "google.com/recaptcha/", "h-captcha", "hcaptcha.com/", "px-captcha", "awswafcaptcha", "awswaf.com/",
}

// LimitedBy names the limiter whose refusal an answer is. A refusal with an error code that is not a limiter's is the
// platform's, whatever its body looks like; only the status 429 and the headers of a challenge count for more.
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

// limiterFields are where JSON errors commonly have their code: at the top, or in an object "error". All other fields
// are passed over without being kept, so that an answer costs its bytes however many it has.
type limiterFields struct {
	Code          json.RawMessage `json:"code"`
	ErrorCode     json.RawMessage `json:"error_code"`
	Error         json.RawMessage `json:"error"`
	ErrorName     json.RawMessage `json:"error_name"`
	ErrorCategory json.RawMessage `json:"error_category"`
	Type          json.RawMessage `json:"type"`
}

// limiterJSON looks for a limiter's code in a JSON error. No limiter's is larger than limiterBody.
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

// wafChallenge knows the answers of AWS WAF, which come with 202 and 405.
func wafChallenge(action string) bool { return action == "challenge" || action == "captcha" }

// refusesForNow reports whether the status is one that limiters use beside 429. A 503 alone is a service's own word.
func refusesForNow(r Refusal) bool {
	return r.Status == statusForbidden || r.Status == statusServiceUnavailable
}

// exhausted reports whether a refusal comes with a request budget of zero.
func exhausted(r Refusal) bool {
	return refusesForNow(r) && (r.Header("X-Ratelimit-Remaining") == "0" || r.Header("Ratelimit-Remaining") == "0" ||
		r.Header("X-Rate-Limit-Remaining") == "0")
}

// edgeRatePage knows Cloudflare's page 1015 in its forms: bare text, and HTML with the number in an element of its own.
func edgeRatePage(body string) bool {
	for _, before := range [...]string{"error code: 1015", "error 1015", `cf-error-code">1015`} {
		_, after, found := strings.Cut(body, before)
		if found && (after == "" || after[0] < '0' || after[0] > '9') {
			return true
		}
	}
	return false
}

// asksToLogIn reports whether a page has a password field: login forms have captchas, too.
func asksToLogIn(body string) bool {
	return containsOneOf(body, []string{`type="password"`, `type='password'`, "type=password"})
}

func containsOneOf(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// Throttled reports whether f ended at a limiter. Reports of older builds have a limiter's code under http_status and
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
