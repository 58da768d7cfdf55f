package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// Longer than 300 lines: one exchange, from request to classified outcome; each part is read with the others in mind.

// Deadlines of one call, dialing included.
const (
	heartbeatTimeout = 10 * time.Second
	resultTimeout    = 15 * time.Second // a probe task's facts may be some hundred KiB
	enrollTimeout    = 20 * time.Second // the platform signs
	waitSlack        = 5 * time.Second  // beyond the long poll's own time
)

// maxChallenge bounds, in bytes, the challenge that is echoed.
const maxChallenge = 256

// maxAnswer bounds, in bytes, what is read of any response.
const maxAnswer = 4 << 20

// api is one node's client of the node API.
type api struct {
	node, instance string
	base           *url.URL
	transport      func() *http.Transport
	close          func()
	creds          credentials
	challenge      atomic.Pointer[string] // of the newest response; nil: none
}

// identify adds to a request the host that sends it and the newest challenge.
func (a *api) identify(h http.Header) {
	if a.instance != "" {
		h.Set(wire.HeaderNodeInstance, a.instance)
	}
	if c := a.challenge.Load(); c != nil {
		h.Set(wire.HeaderChallenge, *c)
	}
}

// newAPI returns a client for the runtime endpoint that uses the node's certificate.
func newAPI(cfg Config, creds credentials, instance string) *api {
	r := &rotation{dialer: dialer{creds: creds, bundle: creds.Path(fileBundle), dial: cfg.Dial}}
	return &api{node: cfg.NodeID, instance: instance, base: cfg.APIURL, transport: r.transport, close: r.close,
		creds: creds}
}

// bareAPI returns a client for one exchange without a certificate, on the runtime path or the recovery path.
func bareAPI(cfg Config, creds credentials, instance string, recovery bool) *api {
	d := dialer{creds: creds, bundle: creds.Path(fileBundle), dial: cfg.Dial, bare: true, system: true}
	base := cfg.APIURL
	if recovery {
		base = cmp.Or(cfg.RecoveryURL, base)
		if cfg.RecoveryCA != "" {
			d.bundle, d.system = cfg.RecoveryCA, false // a lost pinned bundle must not widen trust to the system's roots
		}
	}
	t := d.transport(false)
	return &api{node: cfg.NodeID, instance: instance, base: base, creds: creds,
		transport: func() *http.Transport { return t }, close: t.CloseIdleConnections}
}

// call describes one exchange.
type call struct {
	method, path, query string // {node_id} and {task_id} in path are replaced
	taskID              string
	correlation         string // empty: a fresh one
	token               diag.Secret
	in, out             any               // JSON, nil for none
	head                func(http.Header) // called with the response's header; nil: not needed
	sink                func(io.Reader)   // reads the body of a 200 instead of out
	timeout             time.Duration
	fallback            diag.RecordReason // reason of a failure whose cause is unknown
}

// do makes one exchange within its deadline. It decodes the body of a 200 into out.
func (a *api) do(ctx context.Context, c call) Outcome {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	o := Outcome{Correlation: cmp.Or(c.correlation, "agent-"+rand.Text())}
	asked := false
	req, err := a.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(info httptrace.GotConnInfo) { asked = askedForCert(info.Conn) },
		WroteHeaders: func() { o.Sent = true },
	}), c, o.Correlation)
	if err == nil {
		err = a.exchange(req, c, &o)
	}
	if err != nil {
		o.Failure, o.Detail = failureWord(ctx, err), scrubbed(err)
	} else if !asked && c.token.IsZero() && o.Failure != diag.HTTPRateLimited && o.Status < 500 {
		// A listener that never requested the certificate is not the node API, so nothing that it reports about this
		// node counts.
		o.Failure, o.Final = diag.MTLSNotRequested, false
	}
	o.Asked = asked
	if o.Failure != diag.OK {
		o.Reason = reasonFor(o, asked, a.creds.dates, time.Now(), c.fallback)
	}
	return o
}

func askedForCert(c net.Conn) bool {
	t, ok := c.(*tlsConn)
	return ok && t.asked
}

func (a *api) request(ctx context.Context, c call, correlation string) (*http.Request, error) {
	path := strings.NewReplacer("{node_id}", url.PathEscape(a.node), "{task_id}", url.PathEscape(c.taskID)).Replace(c.path)
	var body io.Reader
	if c.in != nil {
		b, err := json.Marshal(c.in)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", c.path, err)
		}
		body = bytes.NewReader(b)
	}
	target := a.base.String() + path
	if c.query != "" {
		target += "?" + c.query
	}
	req, err := http.NewRequestWithContext(ctx, c.method, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set(wire.HeaderCorrelationID, correlation)
	req.Header.Set("Accept", "application/json")
	a.identify(req.Header)
	if c.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if !c.token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	return req, nil
}

// exchange sends req and decodes the response into o and c.out. It returns an error if there was no response.
func (a *api) exchange(req *http.Request, c call, o *Outcome) error {
	resp, err := a.transport().RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if c.head != nil {
		c.head(resp.Header)
	}
	o.clock(resp.Header, time.Now())
	if c.sink != nil && resp.StatusCode == http.StatusOK {
		o.Status = resp.StatusCode
		c.sink(resp.Body)
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	o.Status = resp.StatusCode
	limited := limitedBy(resp, body) != diag.NoLimiter
	if !limited && resp.StatusCode >= 200 && resp.StatusCode < 300 {
		if resp.StatusCode == http.StatusNoContent || c.out == nil {
			return nil
		}
		if err := bounded.Unmarshal(body, c.out, bounded.Line()); err != nil {
			o.Failure, o.Detail = diag.HTTPEdgePage, "the answer is not what the API answers: "+scrubbed(err)
		}
		return nil
	}
	o.refuse(resp, body)
	if limited { // whatever the status or code: no server behind the limiter has seen this request
		o.Failure, o.Final = diag.HTTPRateLimited, false
	}
	return nil
}

// limitedBy names the limiter that refused the request, by the same rules as the probe of a walk.
func limitedBy(resp *http.Response, body []byte) diag.Limiter {
	var envelope wire.ErrorBody
	// not JSON: the code stays empty
	if err := bounded.Unmarshal(body, &envelope, bounded.Answer()); errors.Is(err, bounded.ErrLimit) {
		body = nil
	}
	return diag.LimitedBy(diag.Refusal{Status: resp.StatusCode, Header: resp.Header.Get, Code: envelope.Error.Code,
		Body: body})
}

// dateResolution is the resolution of a Date header.
const dateResolution = time.Second

// clock reads the server's time from the Date header, which every HTTP server sends, even with a refusal. It is
// the time at which the response began, however long this node waited for it.
func (o *Outcome) clock(h http.Header, answered time.Time) {
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	o.Dated, o.Skew = true, at.Add(dateResolution/2).Sub(answered)
}

// refuse classifies an unsuccessful response.
func (o *Outcome) refuse(resp *http.Response, body []byte) {
	var envelope wire.ErrorBody
	typed := bounded.Unmarshal(body, &envelope, bounded.Answer()) == nil && envelope.Error.Code != ""
	if typed {
		o.Code, o.Detail = quoted(envelope.Error.Code), quoted(envelope.Error.Message)
		if s := envelope.Error.RetryAfterS; s != nil {
			o.RetryAfter = seconds(*s)
		}
	}
	o.RetryAfter = max(o.RetryAfter, retryAfter(resp.Header, time.Now()))
	o.Failure = diag.HTTPStatus
	switch {
	case typed:
		o.Final = slices.Contains([]int{400, 404, 409, 410, 413, 422}, resp.StatusCode)
	case resp.StatusCode == 400 && bytes.Contains(body, []byte("The SSL certificate error")),
		resp.StatusCode == 400 && bytes.Contains(body, []byte("No required SSL certificate was sent")):
		o.Failure = diag.MTLSIngress400 // nginx rejects the certificate above TLS with these texts
	case resp.StatusCode < 500:
		o.Failure = diag.HTTPEdgePage
	}
}

// retryAfter reads the header in both of its forms; 0 when it is absent or in the past.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseInt(v, 10, 64); err == nil {
		return seconds(s)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), maxRetryAfter))
}

// seconds converts a server's number of seconds to a duration from 0 to maxRetryAfter, also if it overflows a
// duration.
func seconds(s int64) time.Duration {
	return time.Duration(max(0, min(s, int64(maxRetryAfter/time.Second)))) * time.Second
}

// maxQuoted bounds, in bytes, how much of a server's text is kept: it goes into the log, the record and the
// ledger.
const maxQuoted = 512

// quoted returns a server's text without anything that looks like a secret: it may echo the request.
func quoted(text string) string {
	text = scrub.Text(text[:min(len(text), 4*maxQuoted)])
	return strings.ToValidUTF8(text[:min(len(text), maxQuoted)], "")
}

// askClock makes one exchange only to read the platform's clock.
func (a *api) askClock(ctx context.Context) Outcome {
	return a.do(ctx, call{method: http.MethodGet, path: wire.PathHealth, timeout: heartbeatTimeout,
		fallback: diag.RecAPIUnreachable})
}

// heartbeat sends a heartbeat. It returns the platform's clock minus this one, and the rest of the response.
func (a *api) heartbeat(ctx context.Context, in wire.HeartbeatRequest) (Outcome, time.Duration, heartbeatReply) {
	var answer heartbeatReply
	began := time.Now()
	o := a.do(ctx, call{method: http.MethodPost, path: wire.PathHeartbeat, in: in, out: &answer.HeartbeatResponse,
		head: answer.header, timeout: heartbeatTimeout, fallback: diag.RecAPIUnreachable})
	if o.OK() && answer.Time.IsZero() { // a server that accepts everything is not the node API
		o.Failure, o.Reason, o.Detail = diag.HTTPEdgePage, diag.RecAPIUnreachable,
			"the answer to a heartbeat lacks the platform's time"
	}
	if !o.OK() {
		return o, 0, answer
	}
	if len(answer.Challenge) > maxChallenge ||
		strings.ContainsFunc(answer.Challenge, func(c rune) bool { return c <= ' ' || c > '~' }) {
		answer.Challenge = "" // not one that fits a header
	}
	if answer.Challenge != "" {
		a.challenge.Store(&answer.Challenge)
	}
	ended := time.Now()
	return o, answer.Time.Sub(began.Add(ended.Sub(began) / 2)), answer
}

// wait is one long poll; it returns nil if there is no task.
func (a *api) wait(ctx context.Context, wait time.Duration, most int) (Outcome, *wire.Task, []wire.Task) {
	var batch wire.TaskBatch
	o := a.do(ctx, call{method: http.MethodGet, path: wire.PathTaskWait, out: &batch,
		query: url.Values{
			"timeout": {strconv.Itoa(max(1, int(wait.Seconds())))}, wire.QueryTasks: {strconv.Itoa(most)},
		}.Encode(),
		timeout: wait + waitSlack, fallback: diag.RecTaskPollFailed})
	if !o.OK() || batch.ID == "" {
		return o, nil, nil
	}
	return o, &batch.Task, batch.More[:min(len(batch.More), max(0, most-1))]
}

// result delivers one task's result.
func (a *api) result(ctx context.Context, r PostResult) Outcome {
	o := a.do(ctx, call{method: http.MethodPost, path: wire.PathTaskResult, taskID: r.TaskID, correlation: r.Correlation,
		in: r.Result, timeout: resultTimeout, fallback: diag.RecTaskResultPostFailed})
	if !o.OK() && o.Reason != diag.RecEdgeRateLimited {
		o.Reason = diag.RecTaskResultPostFailed // whatever the cause, the result is late
	}
	return o
}
