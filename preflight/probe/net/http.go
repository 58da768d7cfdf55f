package net

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// maxBody bounds how much of an answer is read; only extracted fields are kept.
const maxBody = 1 << 20

// minPoll keeps a poll without a pause from flooding the server.
const minPoll = 50 * time.Millisecond

// hungAfter is how long a poll's last request may be unanswered when its time is up: beyond that, the failure is the
// missing answer, not the missing value.
const hungAfter = time.Second

// userAgent identifies the tool in access logs.
const userAgent = "gpuaasctl-probe"

// answer is one HTTP answer with its body, which is bounded.
type answer struct {
	resp *http.Response
	body []byte
	cut  bool // the connection ended before the body did
	took time.Duration
}

// http is the fourth phase: one exchange, or a poll.
func (p *Prober) http(ctx context.Context, req diag.Request, f *diag.Fact) {
	c := p.newExchange(req, f)
	if c == nil {
		return
	}
	defer c.release()
	for polls := 1; ; polls++ {
		a, ok := c.ask(ctx, polls)
		if !ok {
			return
		}
		c.record(a)
		if req.Poll == nil {
			return
		}
		f.HTTP.Polls = polls
		if f.Failure != diag.OK || polled(req.Poll, f.HTTP.Fields[req.Poll.Field]) {
			return
		}
		if !sleep.For(ctx, max(minPoll, time.Duration(req.Poll.EveryMS)*time.Millisecond)) {
			c.stopped(ctx, phasePoll, diag.HTTPTimeout, diag.HTTPTimeout, fmt.Errorf("%s did not become %s",
				req.Poll.Field, cmp.Or(strings.Join(req.Poll.Until, " or "), "another")))
			return
		}
	}
}

// polled reports whether a value ends the poll.
func polled(p *diag.Poll, value string) bool {
	if p.Unlike != "" && value != "" && value != p.Unlike {
		return true
	}
	return slices.ContainsFunc(p.Until, func(word string) bool { return strings.EqualFold(word, value) })
}

// ask makes one exchange, or records why there was no answer.
func (c *exchange) ask(ctx context.Context, polls int) (*answer, bool) {
	warm, ok := c.connectWarm(ctx)
	if !ok {
		return nil, false
	}
	var a *answer
	began := time.Now()
	if !c.confidential() {
		return nil, false
	}
	ok, err := c.overKept(ctx, warm, func() (err error) {
		a, err = c.exchange(ctx)
		return err
	})
	if !ok {
		return nil, false
	}
	if err != nil {
		c.f.TCP.AnswerBegan = c.link.answers
		phase, word := exchangeWord(c.orHTTP2(ctx, err), c.link.cert, time.Now())
		if polls > 1 && phase == phaseHTTP && timedOut(ctx, err) && time.Since(began) < hungAfter {
			phase = phasePoll
		}
		c.stopped(ctx, phase, diag.HTTPTimeout, word, err)
		return nil, false
	}
	if a.resp.Close || len(a.body) == maxBody {
		c.close()
	}
	return a, true
}

func idempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}

// exchange sends the request over the link and reads the answer. It closes a broken link.
func (c *exchange) exchange(ctx context.Context) (*answer, error) {
	c.publicEdge()
	r, err := c.request(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	release := c.link.guard(ctx)
	c.link.whole = false
	resp, err := c.link.roundTrip(r)
	var body []byte
	cut := false
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
		body = c.decoded(resp, body)
		// A truncated body is still an answer: its status and headers arrived.
		if err != nil && !timedOut(ctx, err) && ctx.Err() == nil {
			resp.Close, cut, err = true, true, nil
		}
	}
	if !release() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	c.link.whole = true
	return &answer{resp: resp, body: body, cut: cut, took: time.Since(began)}, nil
}

// decoded undoes what an API's other clients undo: a gzip that was not asked for, as of a cache that keeps no other
// form, and a byte order mark, which a node's agent does not accept.
func (c *exchange) decoded(resp *http.Response, body []byte) []byte {
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			if text, err := io.ReadAll(io.LimitReader(z, maxBody)); err == nil {
				body = text
			}
		}
	}
	if c.req.Cert == "" {
		body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	}
	return body
}

// publicEdge records that a listener never requested the client certificate that the request has: whatever it answers,
// it is not the listener that checks nodes.
func (c *exchange) publicEdge() {
	if c.req.Cert != "" && c.link.tls != nil && !c.link.cert.requested {
		c.failed(phaseMTLS, diag.MTLSNotRequested, errors.New("the listener did not ask for a client certificate"))
	}
}

// request builds the HTTP request. It includes secrets only if the link may carry them.
func (c *exchange) request(ctx context.Context) (*http.Request, error) {
	method := cmp.Or(c.req.Method, http.MethodGet)
	r, err := http.NewRequestWithContext(ctx, method, c.to.url.String(), strings.NewReader(c.req.Body))
	if err != nil {
		return nil, errors.New("the request cannot be written")
	}
	c.headers(r)
	if c.req.Body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if !c.req.Token.IsZero() && c.mayReveal() {
		r.Header.Set("Authorization", "Bearer "+c.req.Token.Reveal())
	}
	return r, nil
}

// headers sets what HTTP and WebSocket requests have in common.
func (c *exchange) headers(r *http.Request) {
	r.Header.Set("User-Agent", userAgent)
	for k, v := range c.req.Header {
		if http.CanonicalHeaderKey(k) == "Host" {
			r.Host = v
			continue
		}
		r.Header.Set(k, v)
	}
	if !c.req.Query.IsZero() && !c.mayReveal() {
		r.URL.RawQuery = ""
	}
	if !c.req.Cookie.IsZero() && c.mayReveal() {
		r.Header.Set("Cookie", c.req.Cookie.Reveal())
	}
}

// mayReveal reports whether the link may carry the request's secrets: over TLS to a server that was verified, else
// only to this machine, by the address that was dialled, or where the request says that its secrets may be read on the
// way.
func (c *exchange) mayReveal() bool {
	if c.to.secure {
		return c.link.verified
	}
	peer, ok := c.link.raw.RemoteAddr().(*net.TCPAddr)
	return c.req.InsecureHTTP || (ok && peer.IP.IsLoopback())
}

// confidential ends a request whose secrets would be sent without TLS to another machine; a bad certificate is another
// failure, recorded before.
func (c *exchange) confidential() bool {
	none := c.req.Token.IsZero() && c.req.Cookie.IsZero() && c.req.Query.IsZero()
	if c.to.secure || none || c.mayReveal() {
		return true
	}
	c.failed(phaseTarget, diag.Unsupported, fmt.Errorf("nothing was sent: http:// would show a secret to "+
		"anybody on the way to %s (insecure_http: true in the profile allows it)", c.link.raw.RemoteAddr()))
	c.close()
	return false
}

// roundTrip writes r and reads the head of the answer. The body, if any, is read from the link.
func (l *link) roundTrip(r *http.Request) (*http.Response, error) {
	l.answers = false
	writeErr := r.Write(l.conn)
	// A server that refuses a client may close the connection before it reads the request; its answer can still be
	// read.
	if _, err := l.br.Peek(1); err != nil {
		if _, alert := remoteAlert(err); writeErr != nil && !alert {
			err = writeErr
		}
		return nil, cutShort(err)
	}
	l.answers = true
	for range maxInformational {
		if err := l.soundsLikeHTTP(); err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(l.br, r)
		if err != nil {
			return nil, cutShort(err)
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			if resp.StatusCode == http.StatusRequestTimeout && l.served { // the end of an idle connection (RFC 9110, 15.5.9)
				return nil, fmt.Errorf("%w: HTTP 408: %w", errClosed, io.EOF)
			}
			l.served = true
			return resp, nil
		}
	}
	return nil, errors.New("the server sends 1xx answers without an end")
}

// maxInformational is how many 1xx answers may precede the final answer.
const maxInformational = 16

var errClosed = errors.New("the connection was closed before a whole answer")

// soundsLikeHTTP checks the first bytes of an answer as they arrive: another protocol may never send a line end.
func (l *link) soundsLikeHTTP() error {
	const http1 = "HTTP/"
	for n := 1; n <= len(http1); n++ {
		head, err := l.br.Peek(n)
		switch {
		case string(head) != http1[:len(head)] && http2Frame(l.br):
			return errHTTP2
		case string(head) != http1[:len(head)]:
			return errors.New("the answer does not begin with " + http1)
		case err != nil:
			return cutShort(err)
		}
	}
	return nil
}

// cutShort returns err, wrapped as errClosed if it is the end of the stream.
func cutShort(err error) error {
	if broken(err) && measure.ErrnoName(err) == "" {
		return fmt.Errorf("%w: %w", errClosed, err)
	}
	return err
}
