package probe

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Extract names that describe an error where the platform's envelope is not the common one. They fill the fields of
// HTTPFacts of the same meaning.
const (
	extractErrorCode    = "error_code"
	extractErrorMessage = "error_message"
	extractCorrelation  = "correlation_id"
	extractRetryAfter   = "retry_after_s"
)

// The envelope of an error, where the request does not say otherwise.
const (
	envelopeCode        = "error.code"
	envelopeMessage     = "error.message"
	envelopeCorrelation = "error.correlation_id"
	envelopeRetryAfter  = "error.retry_after_s"
)

// record writes the HTTP section from an answer, and the failure where it is one.
func (c *climb) record(a *answer) {
	if word := c.describe(a); word != diag.OK {
		c.failed(wordPhase(word), word, nil)
	}
}

// wordPhase is the phase of an answer's word: nginx judges a client certificate above TLS, and means TLS.
func wordPhase(word diag.Failure) string {
	if word == diag.MTLSIngress400 {
		return phaseTLS
	}
	return phaseHTTP
}

// describe writes the HTTP section from an answer and names what is wrong with it.
func (c *climb) describe(a *answer) diag.Failure {
	h := headFacts(a.resp)
	c.f.HTTP = h
	h.DurationMS = diag.Measured(a.took)
	size := int64(len(a.body))
	h.BodyBytes = &size
	c.extract(h, a.body)
	var word diag.Failure
	h.Page, word = judgePage(a.resp, a.body, len(c.req.Extract) > 0)
	return word
}

// headFacts is the HTTP section as far as the head of an answer goes.
func headFacts(resp *http.Response) *diag.HTTPFacts {
	h := &diag.HTTPFacts{Status: resp.StatusCode, Server: Scrub(resp.Header.Get("Server"))}
	h.ContentType, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
	h.Correlation = Scrub(resp.Header.Get("X-Correlation-Id"))
	if u, err := url.Parse(resp.Header.Get("Location")); err == nil {
		h.Location = Scrub(u.Host + u.Path)
	}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		h.Date = diag.At(t)
	}
	h.RetryAfterS = retryAfter(resp.Header.Get("Retry-After"), h.Date.Time)
	return h
}

// retryAfter reads both forms of the header; a date counts from the server's own clock. Nil when there is none.
func retryAfter(v string, now time.Time) *int64 {
	if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil && n >= 0 {
		return &n
	}
	if t, err := http.ParseTime(v); err == nil && !now.IsZero() {
		n := max(0, int64(t.Sub(now)/time.Second))
		return &n
	}
	return nil
}

// extract pulls the fields that were asked for, and the error envelope of a refusal. A null counts as absent.
func (c *climb) extract(h *diag.HTTPFacts, body []byte) {
	if !gjson.ValidBytes(body) {
		return
	}
	get := func(path string) (string, bool) {
		v := gjson.GetBytes(body, path)
		return v.String(), v.Exists() && v.Type != gjson.Null
	}
	for name, path := range c.req.Extract {
		v, ok := get(path)
		switch {
		case !ok:
		case name == c.req.Keep:
			h.Kept = diag.NewSecret(v)
		default:
			if h.Fields == nil {
				h.Fields = map[string]string{}
			}
			h.Fields[name] = v
		}
	}
	for name, v := range h.Fields {
		h.Fields[name] = withoutSecrets(v, h.Kept, c.req.Token, c.req.Cookie)
	}
	if h.Status < 400 {
		return
	}
	envelope := func(name, path string) string {
		if p, ok := c.req.Extract[name]; ok && name != c.req.Keep {
			path = p
		}
		v, _ := get(path)
		return clean(c.req, v, h.Kept)
	}
	h.ErrorCode = envelope(extractErrorCode, envelopeCode)
	h.ErrorMessage = envelope(extractErrorMessage, envelopeMessage)
	if v := envelope(extractCorrelation, envelopeCorrelation); v != "" {
		h.Correlation = v
	}
	if h.RetryAfterS == nil {
		h.RetryAfterS = retryAfter(envelope(extractRetryAfter, envelopeRetryAfter), time.Time{})
	}
}
