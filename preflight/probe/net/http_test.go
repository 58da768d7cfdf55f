package net

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

func TestHTTPFacts(t *testing.T) {
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || r.Header.Get("Authorization") != "Bearer "+kit.Canary || r.Header.Get("Cookie") != "sid=1" ||
			r.Header.Get("X-Correlation-Id") != "c-1" || r.Header.Get("Content-Type") != kit.JSONType ||
			string(body) != `{"type":"noop"}` {
			t.Errorf("got %s %v %s", r.Method, r.Header, body)
		}
		kit.Page(201, kit.JSONType+"; charset=utf-8",
			`{"id":"t-1","n":3,"none":null,"on":false,"deep":{"list":[{"v":"x"}]},"token":"`+kit.Canary+`","url":"wss://t/?token=`+
				kit.Canary+`"}`, "Date", "Sat, 21 Nov 2026 03:00:00 GMT", "Server", "nginx")(w, r)
	}))
	f := run(t, diag.Request{
		Op: diag.OpHTTP, Target: s.URL + "/v1/tasks?x=1", CAInline: ca.PEM, Method: "POST", Body: `{"type":"noop"}`,
		Header: map[string]string{"X-Correlation-Id": "c-1"}, Token: diag.NewSecret(kit.Canary),
		Cookie: diag.NewSecret("sid=1"),
		Keep:   "token", Extract: map[string]string{"id": "id", "n": "n", "none": "none", "on": "on", "v": "deep.list.0.v",
			"absent": "a.b", "token": "token", "url": "url"},
	})
	if !f.Passed() {
		t.Fatalf("%s in %s: %s", f.Failure, f.Phase, f.Detail)
	}
	h := f.HTTP
	want := map[string]string{"id": "t-1", "n": "3", "on": "false", "v": "x", "url": "wss://t/?" + diag.Redacted}
	if !maps.Equal(h.Fields, want) {
		t.Errorf("fields %v", h.Fields)
	}
	if h.Whole["url"].Reveal() != "wss://t/?token="+kit.Canary || len(h.Whole) != 1 {
		t.Errorf("%d URLs kept whole", len(h.Whole))
	}
	if h.Kept.Reveal() != kit.Canary || h.Status != 201 || h.ContentType != kit.JSONType || h.Server != "nginx" ||
		h.DurationMS == 0 || *h.BodyBytes == 0 {
		t.Errorf("%+v", h)
	}
	if h.Date.Format(time.RFC3339) != "2026-11-21T03:00:00Z" {
		t.Errorf("date %s", h.Date)
	}
	if f.DNS == nil || f.TCP == nil || f.TLS == nil || f.TCP.Reused {
		t.Errorf("a rung is missing: %+v", f)
	}
}

func TestErrorEnvelope(t *testing.T) {
	kit.NoLeaks(t)
	for _, c := range []struct {
		name, body string
		extract    map[string]string
	}{
		{
			"common",
			`{"error":{"code":"expired","message":"certificate of Authorization: Bearer abc is over","correlation_id":"c-9","retry_after_s":5}}`, nil,
		},
		{"mapped",
			`{"fault":{"kind":"expired","text":"certificate of Authorization: Bearer abc is over","trace":"c-9","wait":5}}`,
			map[string]string{"error.code": "fault.kind", "error.message": "fault.text", "correlation_id": "fault.trace",
				"retry_after_s": "fault.wait"}},
	} {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(403, kit.JSONType, c.body))
		f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM, Extract: c.extract})
		h := f.HTTP
		if f.Failure != diag.HTTPStatus || h.ErrorCode != "expired" || h.Correlation != "c-9" || h.RetryAfterS == nil ||
			*h.RetryAfterS != 5 {
			t.Errorf("%s: %s %+v", c.name, f.Failure, h)
		}
		if h.ErrorMessage != "certificate of Authorization: "+diag.Redacted || strings.Contains(fmt.Sprint(h.Fields), "abc") {
			t.Errorf("%s: message %q, fields %v", c.name, h.ErrorMessage, h.Fields)
		}
	}
}

func TestRetryAfterAndLocation(t *testing.T) {
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	leaf := ca.Leaf(t, kit.Leaf{})
	for value, want := range map[string]int64{"7": 7, "Sat, 21 Nov 2026 03:00:09 GMT": 9} {
		s := kit.Site(t, leaf, kit.Page(429, kit.JSONType, `{}`, "Retry-After", value, "Date",
			"Sat, 21 Nov 2026 03:00:00 GMT"))
		f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM})
		if f.Failure != diag.HTTPRateLimited || f.HTTP.RetryAfterS == nil || *f.HTTP.RetryAfterS != want {
			t.Errorf("%q: %s %+v", value, f.Failure, f.HTTP.RetryAfterS)
		}
	}
	s := kit.Site(t, leaf, kit.Page(301, "text/html", "", "Location", "https://other.test/here?token="+kit.Canary))
	f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM})
	if !f.Passed() || f.HTTP.Status != 301 || f.HTTP.Location != "other.test/here" {
		t.Errorf("a redirect is reported, not followed: %s %+v", f.Failure, f.HTTP)
	}
}

func TestPollUntil(t *testing.T) {
	kit.NoLeaks(t)
	var asked atomic.Int32
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := "queued"
		if asked.Add(1) == 3 {
			status = "failed"
		}
		if asked.Load() == 2 {
			w.Header().Set("Connection", "close") // the poll continues over another connection
		}
		kit.Page(200, kit.JSONType, `{"status":"`+status+`"}`)(w, r)
	}))
	req := diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM, Extract: map[string]string{"status": "status"},
		Poll: &diag.Poll{Field: "status", Until: []string{"completed", "failed"}, EveryMS: 1}}
	f := run(t, req)
	if !f.Passed() || f.HTTP.Polls != 3 || f.HTTP.Fields["status"] != "failed" ||
		f.DurationMS < 2*diag.Millis(minPoll.Milliseconds()) {
		t.Errorf("%s after %d polls: %v", f.Failure, f.HTTP.Polls, f.HTTP.Fields)
	}
	if f.TCP.Reused || f.DNS == nil {
		t.Errorf("the poll's own connection is no earlier request's: %+v", f.TCP)
	}

	asked.Store(0)
	req.Poll = &diag.Poll{Field: "status", Until: []string{}, Unlike: "queued", EveryMS: 1}
	if f = run(t, req); !f.Passed() || f.HTTP.Polls != 3 || f.HTTP.Fields["status"] != "failed" {
		t.Errorf("%s after %d polls for another value: %v", f.Failure, f.HTTP.Polls, f.HTTP.Fields)
	}

	req.Poll = &diag.Poll{Field: "status", Until: []string{"never"}, EveryMS: 1}
	f = kit.OutOfTime(func(ms int64) diag.Fact {
		req.TimeoutMS = ms
		return run(t, req)
	}, func(f diag.Fact) bool { return f.HTTP != nil && f.HTTP.Polls > 1 && f.Phase == "poll" })
	if f.Failure != diag.HTTPTimeout || f.Phase != "poll" || f.HTTP == nil || f.HTTP.Fields["status"] != "queued" ||
		f.HTTP.Polls < 2 {
		t.Errorf("%s in %s: %+v", f.Failure, f.Phase, f.HTTP)
	}
}

// TestPollThatIsHungUpon: if the server stops answering, the failure is the missing answer, not the missing value.
func TestPollThatIsHungUpon(t *testing.T) {
	kit.NoLeaks(t)
	var asked atomic.Int32
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			<-r.Context().Done()
			return
		}
		kit.Page(200, kit.JSONType, `{"status":"queued"}`)(w, r)
	}))
	f := kit.OutOfTime(func(ms int64) diag.Fact {
		asked.Store(0)
		return run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM, TimeoutMS: ms,
			Extract: map[string]string{"status": "status"}, Poll: &diag.Poll{Field: "status", Until: []string{"completed"}}})
	}, func(f diag.Fact) bool { return asked.Load() == 2 && f.Phase == "http" })
	if f.Failure != diag.HTTPTimeout || f.Phase != "http" || f.HTTP == nil || f.HTTP.Fields["status"] != "queued" {
		t.Errorf("%s in %s: %+v", f.Failure, f.Phase, f.HTTP)
	}
}

// TestPollEndsWithTheFirstRefusal: a permanent error is not polled again.
func TestPollEndsWithTheFirstRefusal(t *testing.T) {
	kit.NoLeaks(t)
	var asked atomic.Int32
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		kit.Page(429, kit.JSONType, `{}`)(w, r)
	}))
	f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM, Extract: map[string]string{"s": "s"},
		Poll: &diag.Poll{Field: "s", Until: []string{"x"}}})
	if f.Failure != diag.HTTPRateLimited || asked.Load() != 1 || f.HTTP.Polls != 1 {
		t.Errorf("%s after %d", f.Failure, asked.Load())
	}
}

// TestHalfAnAnswer: fields of a truncated answer are not extracted, and a truncated answer without fields is a failure
// as well, even if a proxy marked it as complete. A complete answer counts although its end was not marked.
func TestHalfAnAnswer(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	const whole = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for text, want := range map[string]struct {
		word   diag.Failure
		status string
	}{
		head + "10\r\n{\"status\":\"queue\r\n":                  {diag.HTTPClosed, ""},
		head + "13\r\n{\"status\":\"queued\"}\r\n":              {diag.OK, "queued"},
		whole + "Content-Length: 16\r\n\r\n{\"status\":\"queue": {diag.HTTPMalformed, ""}, // by a proxy's own end
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":          {diag.HTTPMalformed, ""}, // for a name that is not served
		"HTTP/1.1 204 No Content\r\n\r\n":                       {diag.OK, ""},
	} {
		addr := kit.ServeTCP(t, func(c net.Conn) { kit.ReadSome(c); _, _ = c.Write([]byte(text)) })
		f := run(t, diag.Request{Op: diag.OpHTTP, Target: "http://" + addr + "/", Extract: map[string]string{"s": "status"}})
		if f.Failure != want.word || f.HTTP == nil || f.HTTP.Fields["s"] != want.status {
			t.Errorf("%q: %q in %s, %+v", text, f.Failure, f.Phase, f.HTTP)
		}
	}
}

// TestForms: an answer in a form that other clients of an API accept is read as they read it.
func TestForms(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(`{"status":"queued"}`))
	_ = z.Close()
	for head, body := range map[string]string{
		"Content-Encoding: gzip":          zipped.String(),
		"Content-Type: Application/JSON":  `{"status":"queued"}`,
		"Content-Type: application/json ": "\xef\xbb\xbf" + `{"status":"queued"}`,
	} {
		addr := kit.ServeTCP(t, func(c net.Conn) {
			kit.ReadSome(c)
			_, _ = c.Write([]byte("HTTP/1.0 200\n" + head + "\n\n" + body))
		})
		f := run(t, diag.Request{Op: diag.OpHTTP, Target: "http://" + addr + "/", Extract: map[string]string{"s": "status"}})
		if !f.Passed() || f.HTTP.Fields["s"] != "queued" || strings.ToLower(f.HTTP.ContentType) != f.HTTP.ContentType {
			t.Errorf("%s: %s, %+v", head, f.Failure, f.HTTP)
		}
	}
}

func TestBodyIsBounded(t *testing.T) {
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 3 * maxBody / 1024 {
			if _, err := w.Write(make([]byte, 1024)); err != nil {
				return
			}
		}
	}))
	f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM})
	if !f.Passed() || *f.HTTP.BodyBytes != maxBody {
		t.Errorf("%s, %d bytes", f.Failure, *f.HTTP.BodyBytes)
	}
}

// TestEarlyRefusalIsHeard: a server that answers before it reads the request, and closes the connection.
func TestEarlyRefusalIsHeard(t *testing.T) {
	kit.NoLeaks(t)
	addr := kit.ServeTCP(t, func(c net.Conn) {
		_, _ = c.Write([]byte("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
	})
	f := run(t, diag.Request{Op: diag.OpHTTP, Method: "POST", Target: "http://" + addr, Body: strings.Repeat("x", 100)})
	if f.Failure != diag.HTTPStatus || f.HTTP.Status != 413 {
		t.Errorf("%s in %s: %s", f.Failure, f.Phase, f.Detail)
	}
}

// TestLoginIsNotTakenForAPage has the cases that must not be taken for a login page.
func TestLoginIsNotTakenForAPage(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		json   bool
		page   string
		word   diag.Failure
	}{
		{"a web page", kit.Page(200, "text/html", "<title>hello</title>"), false, "", diag.OK},
		{"an application's own login, where a page was asked", kit.Page(200, "text/html", `<input type="password">`),
			false, "",
			diag.OK},
		{"a login where an API was asked", kit.Page(200, "text/html", `<input type="password">`), true, PageEdgeLogin,
			diag.HTTPEdgeAuth},
		{"a proxy that wants a login", kit.Page(407, "text/plain", "proxy authentication required"), false, PageEdgeLogin,
			diag.HTTPEdgeAuth},
		{"a network that wants a login", kit.Page(511, "text/html", "<html>accept our terms</html>"), true, PageEdgeLogin,
			diag.HTTPEdgeAuth},
		{"a redirect within the application", kit.Page(302, "text/html", "", "Location", "/lab?"), false, "", diag.OK},
		{"an API's 401", kit.Page(401, kit.JSONType, `{"error":{"code":"login"}}`), true, "", diag.HTTPStatus},
		{"an API that speaks of nginx", kit.Page(500, kit.JSONType, `{"error":{"message":"<center>nginx"}}`), true, "",
			diag.HTTPStatus},
		{"a 400 of the API", kit.Page(400, kit.JSONType, `{"error":{"code":"bad"}}`), true, "", diag.HTTPStatus},
	} {
		w := newRecorder(c.answer)
		body, _ := io.ReadAll(w.Body)
		if p, word := judgePage(w, body, c.json, ""); p != c.page || word != c.word {
			t.Errorf("%s: got %q %q", c.name, p, word)
		}
	}
}
