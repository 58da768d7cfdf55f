package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// Deadlines of one call, dialing included.
const (
	heartbeatTimeout = 10 * time.Second
	resultTimeout    = 15 * time.Second // a probe task's facts may be some hundred KiB
	enrollTimeout    = 20 * time.Second // the platform signs
	waitSlack        = 5 * time.Second  // beyond the long poll's own time
)

// maxAnswer bounds what is read of any answer.
const maxAnswer = 4 << 20

// api is the node API as one node sees it.
type api struct {
	node      string
	base      *url.URL
	transport *http.Transport
	rotation  *rotation // nil for a transport that is used once
	creds     credentials
}

func newAPI(cfg Config, creds credentials, initial bool) *api {
	d := dialer{creds: creds, dial: cfg.Dial, initial: initial}
	a := &api{node: cfg.NodeID, base: cfg.APIURL, transport: d.transport(!initial), creds: creds}
	if !initial {
		a.rotation = &rotation{creds: creds}
	}
	return a
}

// call is one exchange to make.
type call struct {
	method, path, query string // path with {node_id}, {task_id} to be filled in
	taskID              string
	correlation         string // empty: a fresh one
	token               diag.Secret
	in, out             any // JSON, nil for none
	timeout             time.Duration
	fallback            diag.RecordReason // of a failure that says nothing about its cause
}

// do makes one exchange within its deadline. out is filled in when the answer is 200.
func (a *api) do(ctx context.Context, c call) Outcome {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	o := Outcome{Correlation: c.correlation}
	if o.Correlation == "" {
		o.Correlation = "agent-" + rand.Text()
	}
	asked := false
	req, err := a.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { asked = askedForCert(info.Conn) },
	}), c, o.Correlation)
	if err == nil {
		if a.rotation != nil {
			a.rotation.check(a.transport)
		}
		err = a.exchange(req, c, &o)
	}
	if err != nil {
		o.Failure, o.Detail = failureWord(ctx, err), scrubbed(err)
	} else if o.Failure != diag.OK && !asked && c.token.IsZero() && o.Failure != diag.HTTPRateLimited && o.Status < 500 {
		// A listener that never asked for the certificate is not the node API, whatever it says of this node.
		o.Failure, o.Final = diag.MTLSNotRequested, false
	}
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
	if c.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if !c.token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	return req, nil
}

// exchange sends req and reads the answer into o and c.out. Its error means that there was no answer.
func (a *api) exchange(req *http.Request, c call, o *Outcome) error {
	resp, err := a.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	o.Status = resp.StatusCode
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		if resp.StatusCode == http.StatusNoContent || c.out == nil {
			return nil
		}
		if err := json.Unmarshal(body, c.out); err != nil {
			o.Failure, o.Detail = diag.HTTPEdgePage, "the answer is not what the API answers: "+scrubbed(err)
		}
		return nil
	}
	o.refuse(resp, body)
	return nil
}

// refuse reads an answer that is not a success.
func (o *Outcome) refuse(resp *http.Response, body []byte) {
	var envelope wire.ErrorBody
	typed := json.Unmarshal(body, &envelope) == nil && envelope.Error.Code != ""
	if typed {
		o.Code, o.Detail = envelope.Error.Code, envelope.Error.Message
		if s := envelope.Error.RetryAfterS; s != nil {
			o.RetryAfter = time.Duration(*s) * time.Second
		}
	}
	o.RetryAfter = max(o.RetryAfter, retryAfter(resp.Header, time.Now()))
	o.Failure = diag.HTTPStatus
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		o.Failure = diag.HTTPRateLimited
	case typed:
		switch resp.StatusCode {
		case 400, 404, 409, 410, 413, 422:
			o.Final = true
		}
	case resp.StatusCode == 400 && bytes.Contains(body, []byte("The SSL certificate error")),
		resp.StatusCode == 400 && bytes.Contains(body, []byte("No required SSL certificate was sent")):
		o.Failure = diag.MTLSIngress400 // nginx refuses above TLS, in these words
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
	if s, err := strconv.Atoi(v); err == nil {
		return max(0, min(time.Duration(s)*time.Second, maxRetryAfter))
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), maxRetryAfter))
}

// heartbeat reports the node and gives the platform's clock minus this one.
func (a *api) heartbeat(ctx context.Context, in wire.HeartbeatRequest) (Outcome, time.Duration) {
	var answer wire.HeartbeatResponse
	began := time.Now()
	o := a.do(ctx, call{method: http.MethodPost, path: wire.PathHeartbeat, in: in, out: &answer,
		timeout: heartbeatTimeout, fallback: diag.RecAPIUnreachable})
	if !o.OK() || answer.Time.IsZero() {
		return o, 0
	}
	ended := time.Now()
	return o, answer.Time.Sub(began.Add(ended.Sub(began) / 2))
}

// wait is one long poll; nil when there was nothing to do.
func (a *api) wait(ctx context.Context, wait time.Duration) (Outcome, *wire.Task) {
	var task wire.Task
	o := a.do(ctx, call{method: http.MethodGet, path: wire.PathTaskWait, out: &task,
		query:   url.Values{"timeout": {strconv.Itoa(max(1, int(wait.Seconds())))}}.Encode(),
		timeout: wait + waitSlack, fallback: diag.RecTaskPollFailed})
	if !o.OK() || task.ID == "" {
		return o, nil
	}
	return o, &task
}

// result delivers one task's result.
func (a *api) result(ctx context.Context, r PostResult) Outcome {
	o := a.do(ctx, call{method: http.MethodPost, path: wire.PathTaskResult, taskID: r.TaskID, correlation: r.Correlation,
		in: r.Result, timeout: resultTimeout, fallback: diag.RecTaskResultPostFailed})
	if !o.OK() && o.Reason != diag.RecEdgeRateLimited {
		o.Reason = diag.RecTaskResultPostFailed // whatever stands in the way: this is what is late
	}
	return o
}
