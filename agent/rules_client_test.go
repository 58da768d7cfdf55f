package agent

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/limitertest"
)

// pipes is a TLS server in this process: Dial connects to it without a network.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	out := &eager{Conn: far, out: make(chan []byte, 256)}
	go out.write()
	select {
	case p.conns <- out:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// eager is a pipe's end whose writes do not wait for the reader, as on a network: a client that refuses the server's
// certificate says so before it has read everything.
type eager struct {
	net.Conn
	out  chan []byte
	mu   sync.Mutex // guards over, and the end of out
	over bool
}

func (e *eager) write() {
	var err error
	for text := range e.out {
		if err == nil {
			_, err = e.Conn.Write(text)
		}
	}
	_ = e.Conn.Close()
}

func (e *eager) Write(text []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return 0, net.ErrClosed
	}
	e.out <- bytes.Clone(text)
	return len(text), nil
}

func (e *eager) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.over = true
		close(e.out)
	}
	return nil
}

// What was written arrives, however late: a TLS server sets a deadline when it closes.
func (e *eager) SetWriteDeadline(time.Time) error { return nil }
func (e *eager) SetDeadline(at time.Time) error   { return e.SetReadDeadline(at) }

// serve serves h with a certificate of ca for api.test. asks: the listener requests a certificate.
func serve(t *testing.T, ca authority, asks bool, h http.HandlerFunc) *pipes {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), over: make(chan struct{})}
	config := &tls.Config{Certificates: []tls.Certificate{ca.server(t)}}
	if asks {
		config.ClientAuth = tls.RequestClientCert
	}
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(tls.NewListener(p, config)) }()
	t.Cleanup(func() { close(p.over); _ = server.Close(); <-done })
	return p
}

// attemptAt returns an enrollment at a server in this process, and its configuration.
func attemptAt(t *testing.T, ca authority, p *pipes) enrollment {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, fileBundle), []byte(ca.pem()), 0o600))
	cfg := Config{NodeID: testNode, APIURL: &url.URL{Scheme: "https", Host: "api.test"}, Dir: dir, Dial: p.Dial}
	return enrollment{cfg: cfg.withDefaults(), creds: credentialsIn(dir), token: diag.NewSecret("t"), recovery: true}
}

// TestEnrollmentIsRefused: whose word counts. A listener that did not ask for a certificate is a public edge, which
// cannot revoke an identity; a refusal that does not concern the identity only blocks the enrollment.
func TestEnrollmentIsRefused(t *testing.T) {
	const blocked, drift = diag.RecRecoveryEnrollmentBlocked, diag.RecEndpointProfileDrift
	ca := newAuthority(t, "CA")
	for _, tc := range []struct {
		status        int
		code          string
		asked, public diag.RecordReason
	}{
		{403, wire.DenyRevoked, diag.RecIdentityRevoked, drift},
		{401, wire.DenyFenced, diag.RecIdentityRevoked, drift},
		{403, wire.DenyRetired, diag.RecIdentityRevoked, drift},
		{403, wire.DenyCloned, diag.RecClonedIdentity, drift},
		{403, wire.DenyProfileMismatch, drift, drift},
		{401, wire.DenyTokenExpired, diag.RecRecoveryTokenExpired, diag.RecRecoveryTokenExpired},
		{403, wire.DenyTokenConsumed, blocked, blocked},
		{403, wire.DenyNotNodeBound, blocked, blocked},
		{403, "other", blocked, blocked},
		{403, "", blocked, blocked},
		{409, wire.DenyTokenExpired, blocked, blocked},
		{500, wire.DenyTokenExpired, blocked, blocked},
	} {
		for _, asks := range []bool{true, false} {
			want := tc.public
			if asks {
				want = tc.asked
			}
			e := attemptAt(t, ca, serve(t, ca, asks, func(w http.ResponseWriter, _ *http.Request) {
				deny(w, tc.status, tc.code)
			}))
			o := e.ask(t.Context(), "csr", &wire.EnrollResponse{})
			edge := !asks && want == drift && tc.code != wire.DenyProfileMismatch
			if o.Reason != want || o.Asked != asks || (o.Failure == diag.MTLSNotRequested) != edge {
				t.Errorf("%d %q, asks %v: %+v, want %s", tc.status, tc.code, asks, o, want)
			}
		}
	}
}

// keyOf is a key whose public half has no type of the standard library.
type keyOf struct{ crypto.Signer }

func (keyOf) Public() crypto.PublicKey { return "p" }

// TestUsableAnswers: what an answer to an enrollment must hold before anything on the disk is replaced.
func TestUsableAnswers(t *testing.T) {
	ca := newAuthority(t, "CA")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	cert := func(name string, key *ecdsa.PrivateKey, names ...string) string {
		der := ca.issue(t, name, &key.PublicKey, time.Now().Add(time.Hour), names...)
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	for name, tc := range map[string]struct {
		answer wire.EnrollResponse
		key    crypto.Signer
		want   string
	}{
		"good":                  {wire.EnrollResponse{Certificate: cert(testNode, key)}, key, ""},
		"good, by another name": {wire.EnrollResponse{Certificate: cert("x", key, testNode), CABundle: ca.pem()}, key, ""},
		"no certificate":        {wire.EnrollResponse{Certificate: "x"}, key, "holds no certificate"},
		"another key":           {wire.EnrollResponse{Certificate: cert(testNode, other)}, key, "is for another key"},
		"a key of no known type": {wire.EnrollResponse{Certificate: cert(testNode, key)}, keyOf{key},
			"is for another key"},
		"another node": {wire.EnrollResponse{Certificate: cert("node-2", key, "x")}, key, "is for node-2, x"},
		"a broken trust": {wire.EnrollResponse{Certificate: cert(testNode, key), CABundle: "x"}, key,
			"trust bundle holds no"},
	} {
		err := usable(tc.answer, tc.key, testNode)
		if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestEnrollmentKeepsWhatItGot: an enrollment stores the answer, drops a bundle that does not verify the listener, and
// reports what it could not store.
func TestEnrollmentKeepsWhatItGot(t *testing.T) {
	ca, other := newAuthority(t, "CA"), newAuthority(t, "other CA")
	issued := func(answer wire.EnrollResponse) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var in wire.EnrollRequest
			must(t, json.NewDecoder(r.Body).Decode(&in))
			answer := answer
			answer.Certificate = certificateFor(t, ca, in)
			must(t, json.NewEncoder(w).Encode(answer))
		}
	}
	for name, tc := range map[string]struct {
		answer wire.EnrollResponse
		change func(*enrollment)
		want   string // reason and detail
		bundle string
	}{
		"all of it": {answer: wire.EnrollResponse{Generation: 7, CABundle: ca.pem(), APIURL: "https://api.test"},
			want: " generation 7", bundle: ca.pem()},
		"no bundle, the one here stays": {answer: wire.EnrollResponse{Generation: 7}, want: " generation 7",
			bundle: ca.pem()},
		"another URL": {answer: wire.EnrollResponse{Generation: 7, APIURL: "https://other.test"}, bundle: ca.pem(),
			want: " generation 7, the platform names another API URL: https://other.test"},
		"a bundle that does not verify the listener": {answer: wire.EnrollResponse{Generation: 7, CABundle: other.pem()},
			want:   " generation 7, the trust bundle here is kept: the platform's own does not cover its listener",
			bundle: ca.pem()},
		"two that do not": {answer: wire.EnrollResponse{Generation: 7, CABundle: other.pem()},
			change: func(e *enrollment) {
				e.cfg.RecoveryCA = filepath.Join(t.TempDir(), "recovery")
				must(t, os.WriteFile(e.cfg.RecoveryCA, []byte(ca.pem()), 0o600))
				must(t, os.WriteFile(e.creds.Path(fileBundle), []byte(newAuthority(t, "third").pem()), 0o600))
			}, want: " generation 7", bundle: other.pem()},
		"no place for a key": {change: func(e *enrollment) {
			must(t, os.WriteFile(e.creds.Path("generations"), nil, 0o600))
		}, want: "recovery_enrollment_blocked", bundle: ca.pem()},
		"no place for the answer": {answer: wire.EnrollResponse{Generation: 7}, change: func(e *enrollment) {
			e.creds.FS.Before = func(op, path string) error {
				if strings.HasSuffix(path, "/.new") {
					return errors.New("no place")
				}
				return nil
			}
		}, want: "recovery_enrollment_blocked", bundle: ca.pem()},
	} {
		t.Run(name, func(t *testing.T) {
			e := attemptAt(t, ca, serve(t, ca, false, issued(tc.answer)))
			if tc.change != nil {
				tc.change(&e)
			}
			o, room := e.run(t.Context())
			got := string(o.Reason)
			if o.OK() {
				got += " " + o.Detail
			}
			bundle, _ := os.ReadFile(e.creds.Path(fileBundle))
			_, errPair := e.creds.Pair()
			if got != tc.want || room || string(bundle) != tc.bundle || (errPair == nil) != o.OK() {
				t.Errorf("%q (%s), room %v, pair %v", got, o.Detail, room, errPair)
			}
			if _, meta, _ := e.creds.Current(); o.OK() && (meta.Generation != 7 || meta.Origin != "enrolled") {
				t.Errorf("kept %+v", meta)
			}
		})
	}
	e := attemptAt(t, ca, serve(t, ca, false, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(wire.EnrollResponse{Certificate: "x"})
	}))
	if o, _ := e.run(t.Context()); o.Reason != diag.RecRecoveryEnrollmentBlocked || o.Failure != diag.FileMismatch {
		t.Errorf("an answer without a certificate: %+v", o)
	}
}

// certificateFor returns a certificate for an enrollment's request.
func certificateFor(t *testing.T, ca authority, in wire.EnrollRequest) string {
	block, _ := pem.Decode([]byte(in.CSR))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	must(t, err)
	der := ca.issue(t, in.NodeID, csr.PublicKey, time.Now().Add(time.Hour))
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// answerOf is a response as a server gave it.
func answerOf(status int, header map[string]string, body string) limitertest.Answer {
	return limitertest.Answer{Name: fmt.Sprint(status, " ", body), Status: status, Header: header, Body: body}
}

// TestAnswersAreClassified: what a response other than a success means.
func TestAnswersAreClassified(t *testing.T) {
	typed := func(code string) string {
		return `{"error":{"code":"` + code + `","message":"no","retry_after_s":7}}`
	}
	for _, tc := range []struct {
		status     int
		body       string
		failure    diag.Failure
		code       string
		final      bool
		retryAfter time.Duration
	}{
		{400, typed("x"), diag.HTTPStatus, "x", true, 7 * time.Second},
		{404, typed("x"), diag.HTTPStatus, "x", true, 7 * time.Second},
		{409, typed("x"), diag.HTTPStatus, "x", true, 7 * time.Second},
		{410, typed("x"), diag.HTTPStatus, "x", true, 7 * time.Second},
		{413, typed("x"), diag.HTTPStatus, "x", true, 7 * time.Second},
		{422, typed("x"), diag.HTTPStatus, "x", true, 7 * time.Second},
		{403, typed("x"), diag.HTTPStatus, "x", false, 7 * time.Second},
		{500, typed("x"), diag.HTTPStatus, "x", false, 7 * time.Second},
		{400, typed(""), diag.HTTPEdgePage, "", false, 0},
		{400, "<html>", diag.HTTPEdgePage, "", false, 0},
		{499, "<html>", diag.HTTPEdgePage, "", false, 0},
		{500, "<html>", diag.HTTPStatus, "", false, 0},
		{400, "The SSL certificate error", diag.MTLSIngress400, "", false, 0},
		{400, "No required SSL certificate was sent", diag.MTLSIngress400, "", false, 0},
		{403, "No required SSL certificate was sent", diag.HTTPEdgePage, "", false, 0},
		{403, "The SSL certificate error", diag.HTTPEdgePage, "", false, 0},
	} {
		var o Outcome
		o.refuse(&http.Response{StatusCode: tc.status, Header: http.Header{}}, []byte(tc.body))
		if o.Failure != tc.failure || o.Code != tc.code || o.Final != tc.final || o.RetryAfter != tc.retryAfter {
			t.Errorf("%d %s: %+v", tc.status, tc.body, o)
		}
	}
	var o Outcome
	o.refuse(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"9"}}}, []byte(typed("x")))
	if o.RetryAfter != 9*time.Second {
		t.Errorf("the longer of two times: %v", o.RetryAfter)
	}
	for n, want := range map[int64]time.Duration{-1: 0, 0: 0, 1: time.Second, 3600: time.Hour, 3601: time.Hour,
		1 << 62: time.Hour} {
		if got := seconds(n); got != want {
			t.Errorf("%d seconds: %v, want %v", n, got, want)
		}
	}
	for v, want := range map[string]time.Duration{"": 0, "soon": 0, "5": 5 * time.Second, "-5": 0,
		testWall.Add(-time.Hour).Format(http.TimeFormat): 0, testWall.Add(time.Minute).Format(http.TimeFormat): time.Minute,
		testWall.Add(2 * time.Hour).Format(http.TimeFormat): time.Hour} {
		if got := retryAfter(http.Header{"Retry-After": {v}}, testWall); got != want {
			t.Errorf("Retry-After %q: %v, want %v", v, got, want)
		}
	}
	for n, want := range map[int]int{511: 511, 512: 512, 513: 512, 5000: 512} {
		if got := quoted(strings.Repeat("a", n)); len(got) != want {
			t.Errorf("of %d bytes %d are kept, want %d", n, len(got), want)
		}
	}
}

// TestSuccessesAreRead: the body of a success is read into what the caller expects; what is not that, or did not come
// from a listener that asked for the certificate, is no success.
func TestSuccessesAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		status  int
		body    string
		out     any
		failure diag.Failure
	}{
		"read":                {200, `{"watermark":7}`, &wire.EventsResponse{}, ""},
		"no content":          {204, "", &wire.EventsResponse{}, ""},
		"nothing is expected": {200, "<html>", nil, ""},
		"a page":              {200, "<html>", &wire.EventsResponse{}, diag.HTTPEdgePage},
		"another success":     {299, "<html>", nil, ""},
		"no success any more": {300, "<html>", nil, diag.HTTPEdgePage},
		"a limiter's 200":     {429, "{}", nil, diag.HTTPRateLimited},
	} {
		o := answeredBy(answerOf(tc.status, nil, tc.body)).do(t.Context(), call{method: http.MethodGet, path: "/",
			out:     tc.out,
			timeout: time.Minute, fallback: diag.RecTaskPollFailed})
		if o.Failure != tc.failure || o.Status != tc.status || !o.Sent || !o.Asked || o.OK() != (tc.failure == "") {
			t.Errorf("%s: %+v, want %q", name, o, tc.failure)
		}
		if r, is := tc.out.(*wire.EventsResponse); is && tc.failure == "" && tc.status == 200 && r.Watermark != 7 {
			t.Errorf("%s: read %+v", name, r)
		}
	}
	var taken []string
	take := func(status int) Outcome {
		return answeredBy(answerOf(status, nil, "body")).do(t.Context(), call{method: http.MethodGet, path: "/",
			timeout: time.Minute, fallback: diag.RecTaskPollFailed, sink: func(r io.Reader) {
				text,
					_ := io.ReadAll(r)
				taken = append(taken, string(text))
			}})
	}
	if o := take(200); !o.OK() || o.Status != 200 || len(taken) != 1 || taken[0] != "body" {
		t.Errorf("%+v, taken %q", o, taken)
	}
	if o := take(404); o.OK() || len(taken) != 1 {
		t.Errorf("%+v, taken %q", o, taken)
	}
}

// TestAListenerThatDoesNotAsk: nothing that it reports counts, unless a token was sent, or it could not decide.
func TestAListenerThatDoesNotAsk(t *testing.T) {
	ca := newAuthority(t, "CA")
	for _, tc := range []struct {
		status int
		token  string
		want   diag.Failure
	}{
		{200, "", diag.MTLSNotRequested}, {403, "", diag.MTLSNotRequested}, {499, "", diag.MTLSNotRequested},
		{500, "", diag.HTTPStatus}, {429, "", diag.HTTPRateLimited}, {200, "t", ""}, {403, "t", diag.HTTPStatus},
	} {
		e := attemptAt(t, ca, serve(t, ca, false, func(w http.ResponseWriter, _ *http.Request) { deny(w, tc.status, "x") }))
		a := bareAPI(e.cfg, e.creds, "", false)
		o := a.do(t.Context(), call{method: http.MethodGet, path: "/", token: diag.NewSecret(tc.token), timeout: time.Minute,
			fallback: diag.RecTaskPollFailed})
		a.close()
		if o.Failure != tc.want || o.Asked || o.Final {
			t.Errorf("%d, token %q: %+v, want %q", tc.status, tc.token, o, tc.want)
		}
	}
}

// TestHeartbeatAnswers: an answer without the time is not the platform's; a challenge must fit a header.
func TestHeartbeatAnswers(t *testing.T) {
	body := func(challenge string) string {
		text, err := json.Marshal(wire.HeartbeatResponse{Time: time.Now(), Challenge: challenge})
		must(t, err)
		return string(text)
	}
	for _, tc := range []struct{ challenge, want string }{
		{"c1", "c1"}, {strings.Repeat("c", 256), strings.Repeat("c", 256)}, {strings.Repeat("c", 257), ""},
		{"a b", ""}, {"a\u00e9", ""}, {"a\x7f", ""}, {"!~", "!~"}, {"", ""},
	} {
		a := answeredBy(answerOf(200, nil, body(tc.challenge)))
		o, skew, w := a.heartbeat(t.Context(), wire.HeartbeatRequest{})
		kept := ""
		if c := a.challenge.Load(); c != nil {
			kept = *c
		}
		if !o.OK() || w.Challenge != tc.want || kept != tc.want || skew.Abs() > time.Minute {
			t.Errorf("%q: %+v, %q, kept %q", tc.challenge, o, w.Challenge, kept)
		}
	}
	for _, text := range []string{"{}", `{"challenge":"c1"}`} {
		a := answeredBy(answerOf(200, nil, text))
		if o, _, _ := a.heartbeat(t.Context(), wire.HeartbeatRequest{}); o.Reason != diag.RecAPIUnreachable ||
			o.Failure != diag.HTTPEdgePage || a.challenge.Load() != nil {
			t.Errorf("%s: %+v", text, o)
		}
	}
}

// TestNoMoreTasksThanAskedFor: of a batch, the agent takes as many as it asked for.
func TestNoMoreTasksThanAskedFor(t *testing.T) {
	for most, want := range map[int]int{1: 0, 2: 1, 3: 2, 4: 2} {
		a := answeredBy(answerOf(200, nil, `{"id":"a","more":[{"id":"b"},{"id":"c"}]}`))
		if o, task, more := a.wait(t.Context(), time.Second,
			most); !o.OK() || task == nil || task.ID != "a" || len(more) != want {
			t.Errorf("at most %d: %+v, %v, %d more", most, o, task, len(more))
		}
	}
	if o, task, _ := answeredBy(answerOf(200, nil, `{}`)).wait(t.Context(), time.Second, 1); !o.OK() || task != nil {
		t.Errorf("no task: %+v, %v", o, task)
	}
}
