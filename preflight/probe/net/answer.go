package net

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// envelope has the paths of an error's parts in an answer: the path that the request extracts under one of the names,
// else the common path.
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

// record fills the HTTP section from an answer, and sets the failure if it is one.
func (c *exchange) record(a *answer) {
	if word := c.describe(a); word != diag.OK {
		c.failed(phaseHTTP, word, nil)
	}
}

// describe fills the HTTP section from an answer, and returns the failure that the answer means.
func (c *exchange) describe(a *answer) diag.Failure {
	h := headFacts(c.req, a.resp)
	c.f.HTTP = h
	h.DurationMS = diag.Measured(a.took)
	h.BodyBytes = new(int64(len(a.body)))
	valid := json.Valid(a.body)
	if valid { // a field of a truncated answer may be truncated itself
		c.extract(h, a.body)
	}
	var word diag.Failure
	h.Page, word = judgePage(a.resp, a.body, len(c.req.Extract) > 0, h.ErrorCode)
	h.Edge, h.EdgeSays = pageOf(h.Page, a.resp, a.body)
	h.EdgeSays = scrub.Clean(c.req, h.EdgeSays)
	if word == diag.OK && h.Status/100 == 2 {
		return c.judgeBody(a, valid)
	}
	return word
}

// judgeBody returns the failure of a successful answer whose body is wrong. It checks the body if fields were
// requested, or if the request used a node's certificate, since the agent parses the body. The body of any other page,
// such as a health page, does not matter.
func (c *exchange) judgeBody(a *answer, valid bool) diag.Failure {
	wants, node, says := c.wantsFields(), c.req.Cert != "", isJSON(a.resp)
	switch {
	case wants && isHTML(a.resp):
		return diag.HTTPEdgePage // an HTML page instead of the API's answer
	case valid, !wants && !node, len(a.body) == maxBody:
		return diag.OK
	case a.cut:
		return diag.HTTPClosed
	case len(a.body) == 0 && (node || says || a.resp.StatusCode == http.StatusNoContent), !wants && !says:
		return diag.OK
	}
	return diag.HTTPMalformed
}

// wantsFields reports whether the request extracts more than the parts of an error and lists of names, which any page
// may lack.
func (c *exchange) wantsFields() bool {
	for name := range c.req.Extract {
		if !strings.HasPrefix(name, "error.") && !strings.HasSuffix(name, listOfNames) {
			return true
		}
	}
	return false
}

// headFacts returns the part of the HTTP section that the head of an answer has, without the request's secrets.
func headFacts(req diag.Request, resp *http.Response) *diag.HTTPFacts {
	h := &diag.HTTPFacts{Status: resp.StatusCode, Server: scrub.Clean(req, resp.Header.Get("Server"))}
	h.ContentType, _, _ = strings.Cut(strings.ToLower(scrub.Clean(req, resp.Header.Get("Content-Type"))), ";")
	// an opaque id, which scrubbing would redact
	h.Correlation = clipID(scrub.Without(resp.Header.Get("X-Correlation-Id"), scrub.SecretsOf(req)...))
	if u, err := url.Parse(resp.Header.Get("Location")); err == nil {
		h.Location = scrub.Clean(req, u.Host+u.Path)
	}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		h.Date = diag.At(t)
	}
	h.RetryAfterS = retryAfter(resp.Header.Get("Retry-After"), h.Date.Time)
	h.Cached = fromCache(resp.Header)
	return h
}

// listOfNames is the suffix of fields that contain only names. Anything else found at their path, such as values of
// headers, is dropped.
const listOfNames = "_names"

// maxHeaderName is longer than headers' names, and shorter than tokens.
const maxHeaderName = 40

func isNames(v string) bool {
	var names []string
	return bounded.Unmarshal([]byte(v), &names, bounded.Answer()) == nil &&
		!slices.ContainsFunc(names, func(n string) bool { return !isName(n) })
}

// isName reports whether n is a letter followed by letters, digits and dashes.
func isName(n string) bool {
	for i, c := range []byte(n) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || (c != '-' && (c < '0' || c > '9'))) {
			return false
		}
	}
	return n != "" && len(n) <= maxHeaderName
}

func clipID(id string) string { return id[:min(len(id), scrub.MaxID)] }

// retryAfter parses both forms of the header; a date is relative to the server's own clock. Nil without the header.
func retryAfter(v string, now time.Time) *int64 {
	if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil && n >= 0 {
		return new(min(n, bounded.MaxNumber))
	}
	if t, err := http.ParseTime(v); err == nil && !now.IsZero() {
		return new(max(0, int64(t.Sub(now)/time.Second)))
	}
	return nil
}

// extract reads the requested fields from valid JSON, and the error envelope of a refusal. A null counts as absent.
func (c *exchange) extract(h *diag.HTTPFacts, body []byte) {
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
			v = scrub.Text(v)
		}
		h.Fields[name] = scrub.Without(v, append(scrub.SecretsOf(c.req), h.Kept)...)
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
		return scrub.Clean(c.req, v, h.Kept)
	}
	h.ErrorCode, h.ErrorMessage = part(envelope.code), part(envelope.message)
	if v, _ := get(body, envelope.correlation.in(c.req)); v != "" {
		h.Correlation = clipID(scrub.Without(v, append(scrub.SecretsOf(c.req), h.Kept)...))
	}
	if h.RetryAfterS == nil {
		h.RetryAfterS = retryAfter(part(envelope.retryAfter), time.Time{})
	}
}

// A server that speaks only HTTP/2 answers HTTP/1.1 with an alert, with an HTTP/2 frame, or by closing the connection.

var errHTTP2 = errors.New("the server speaks HTTP/2 only, and HTTP/1.1 was offered (ALPN)")

// alpnPatience bounds the handshake that offers HTTP/2.
const alpnPatience = time.Second

// orHTTP2 returns err, or errHTTP2 if the server closed a connection without a negotiated protocol, but accepts one
// that offers HTTP/2 and presents the same certificate. It sends nothing over the second connection.
func (c *exchange) orHTTP2(ctx context.Context, err error) error {
	conn, secure := c.link.conn.(*tls.Conn)
	if !secure || !errors.Is(err, errClosed) || conn.ConnectionState().NegotiatedProtocol != "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, measure.Briefly(ctx, alpnPatience))
	defer cancel()
	raw, dialErr := c.p.dial(ctx, "tcp", c.link.tcp.Remote)
	if dialErr != nil {
		return err
	}
	defer raw.Close()
	again := tls.Client(raw, &tls.Config{
		ServerName: c.serverName(), NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(cs tls.ConnectionState) error { // the certificate that was verified a moment ago
			if !cs.PeerCertificates[0].Equal(conn.ConnectionState().PeerCertificates[0]) {
				return errUnverified
			}
			return nil
		},
	})
	if again.HandshakeContext(ctx) == nil && again.ConnectionState().NegotiatedProtocol == "h2" {
		return errHTTP2
	}
	return err
}

// http2Frame reports whether the received bytes begin a frame that an HTTP/2 server sends first: SETTINGS, or GOAWAY
// for a client that did not speak HTTP/2 (RFC 9113, 4.1).
func http2Frame(br *bufio.Reader) bool {
	const header, settings, goAway = 9, 4, 7
	head, _ := br.Peek(min(br.Buffered(), header))
	if len(head) < header || head[0] != 0 {
		return false
	}
	stream := head[5] | head[6] | head[7] | head[8]
	return stream == 0 && (head[3] == settings || head[3] == goAway)
}

// fromCache returns the header by which an answer says that it came from a cache; "" if none does.
func fromCache(h http.Header) string {
	if age, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil && age > 0 {
		return "Age: " + strconv.FormatUint(age, 10)
	}
	for _, name := range []string{"X-Cache", "X-Cache-Status", "CF-Cache-Status"} {
		if word, _, _ := strings.Cut(h.Get(name), " "); strings.EqualFold(word, "hit") {
			return name + ": HIT"
		}
	}
	return ""
}
