package probe

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// envelope is where an error's parts are in an answer: at the path that the request extracts under one of the names,
// else at the common one.
var envelope = struct{ code, message, correlation, retryAfter envelopeField }{
	code:        envelopeField{"error.code", [...]string{"error.code", "error_code"}},
	message:     envelopeField{"error.message", [...]string{"error.message", "error_message"}},
	correlation: envelopeField{"error.correlation_id", [...]string{"error.correlation_id", "correlation_id"}},
	retryAfter:  envelopeField{"error.retry_after_s", [...]string{"error.retry_after_s", "retry_after_s"}},
}

type envelopeField struct {
	path  string
	names [2]string
}

// in returns the field's path for req.
func (e envelopeField) in(req diag.Request) string {
	for _, name := range e.names {
		if p, ok := req.Extract[name]; ok && name != req.Keep {
			return p
		}
	}
	return e.path
}

// record writes the HTTP section from an answer, and the failure where it is one.
func (c *climb) record(a *answer) {
	if word := c.describe(a); word != diag.OK {
		c.failed(phaseHTTP, word, nil)
	}
}

// describe writes the HTTP section from an answer and names what is wrong with it.
func (c *climb) describe(a *answer) diag.Failure {
	h := headFacts(a.resp)
	c.f.HTTP = h
	h.DurationMS = diag.Measured(a.took)
	size := int64(len(a.body))
	h.BodyBytes = &size
	h.Correlation = withoutSecrets(h.Correlation, secretsOf(c.req)...)
	c.extract(h, a.body)
	var word diag.Failure
	h.Page, word = judgePage(a.resp, a.body, len(c.req.Extract) > 0, h.ErrorCode)
	return word
}

// headFacts is the HTTP section as far as the head of an answer goes.
func headFacts(resp *http.Response) *diag.HTTPFacts {
	h := &diag.HTTPFacts{Status: resp.StatusCode, Server: Scrub(resp.Header.Get("Server"))}
	h.ContentType, _, _ = strings.Cut(resp.Header.Get("Content-Type"), ";")
	h.Correlation = clipID(resp.Header.Get("X-Correlation-Id")) // an opaque id by nature, which scrubbing would eat
	if u, err := url.Parse(resp.Header.Get("Location")); err == nil {
		h.Location = Scrub(u.Host + u.Path)
	}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		h.Date = diag.At(t)
	}
	h.RetryAfterS = retryAfter(resp.Header.Get("Retry-After"), h.Date.Time)
	return h
}

// listOfNames ends the name of a field that holds names alone. What else its path may lead to, such as the values of
// headers, is not kept.
const listOfNames = "_names"

// maxHeaderName is longer than the names of headers are, and shorter than tokens.
const maxHeaderName = 40

func isNames(v string) bool {
	var names []string
	return bounded.Unmarshal([]byte(v), &names, bounded.Answer()) == nil && !slices.ContainsFunc(names, func(n string) bool { return !isName(n) })
}

// isName reports whether n is a letter, and letters, digits and dashes after it: no regexp, which costs the agent 0.2
// MB.
func isName(n string) bool {
	for i, c := range []byte(n) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return n != "" && len(n) <= maxHeaderName
}

// maxID bounds an id that somebody else made.
const maxID = 128

func clipID(id string) string { return id[:min(len(id), maxID)] }

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
	if !json.Valid(body) {
		return
	}
	get := c.p.Lookup
	if get == nil {
		get = lookup
	}
	for name, path := range c.req.Extract {
		v, ok := get(body, path)
		switch {
		case !ok, strings.HasSuffix(name, listOfNames) && !isNames(v):
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
		if slices.Contains(envelope.message.names[:], name) {
			v = Scrub(v)
		}
		h.Fields[name] = withoutSecrets(v, append(secretsOf(c.req), h.Kept)...)
		if bare, query, cut := diag.BareURL(h.Fields[name]); cut {
			if h.Whole == nil {
				h.Whole = map[string]diag.Secret{}
			}
			if !query.IsZero() {
				bare += "?" + diag.Redacted
			}
			h.Fields[name], h.Whole[name] = bare, diag.NewSecret(v)
		}
	}
	if h.Status < 400 {
		return
	}
	part := func(e envelopeField) string {
		v, _ := get(body, e.in(c.req))
		return clean(c.req, v, h.Kept)
	}
	h.ErrorCode, h.ErrorMessage = part(envelope.code), part(envelope.message)
	if v, _ := get(body, envelope.correlation.in(c.req)); v != "" {
		h.Correlation = clipID(withoutSecrets(v, append(secretsOf(c.req), h.Kept)...))
	}
	if h.RetryAfterS == nil {
		h.RetryAfterS = retryAfter(part(envelope.retryAfter), time.Time{})
	}
}
