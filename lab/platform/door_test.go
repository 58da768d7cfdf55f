package platform_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/gateway"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/wire"
)

// slowly opens a connection to the node terminal and sends text; nil when it was closed at once.
func slowly(t *testing.T, p *platformtest.Platform, cred platformtest.Credential, text string) *tls.Conn {
	t.Helper()
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", strings.TrimPrefix(p.NodeTerminalURL, "https://"), p.TLS(&cred))
	if err != nil {
		return nil
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, text) // closed already: the read says so
	return conn
}

// until waits for the far end to close the connection; false when it is open still at the deadline.
func until(conn *tls.Conn, deadline time.Time) bool {
	_ = conn.SetReadDeadline(deadline)
	_, err := io.Copy(io.Discard, conn)
	timeout, ok := err.(net.Error)
	return !ok || !timeout.Timeout()
}

// TestSlowConnections: one node's certificate cannot use up the node terminal. Of 150 connections that are idle or stay
// in the middle of a body, no more than 64 are let in, and those are closed by a deadline. A stream in progress lasts
// longer than both deadlines, and works on.
func TestSlowConnections(t *testing.T) {
	const deadline = 4 * time.Second
	_, p := withRedis(t, func(o *platformtest.Options) {
		o.Door = platform.Door{Idle: deadline, Request: deadline, Limits: gateway.Limits{PerAddress: 200}}
	})
	browser, left := openSession(t, p)

	cred := p.Issue("compute-node-02", platformtest.IssueOptions{})
	request := func(method, more string) string {
		return fmt.Sprintf("%s /internal/v1/none HTTP/1.1\r\nHost: x\r\n%s\r\n", method, more)
	}
	began := time.Now()
	var mu sync.Mutex
	var in []*tls.Conn
	var wg sync.WaitGroup
	for i := range 150 {
		wg.Go(func() {
			text := request("GET", "")
			if i%2 == 0 {
				text = request("POST", "Content-Length: 1000\r\n") + "half"
			}
			conn := slowly(t, p, cred, text)
			if conn == nil {
				return
			}
			// An answer, or a body that is waited for, says that it was let in; a refused one is closed at once.
			if !until(conn, time.Now().Add(deadline/2)) {
				mu.Lock()
				in = append(in, conn)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	open := 0 // now: on a slow machine the first have been closed, and others let in
	for _, conn := range in {
		if !until(conn, time.Now().Add(time.Millisecond)) {
			open++
		}
	}
	if len(in) == 0 || open > 64 {
		t.Errorf("of 150 connections %d were let in, and %d are open after %s, want some and at most 64", len(in), open,
			time.Since(began))
	}
	for _, conn := range in {
		if !until(conn, time.Now().Add(5*deadline)) {
			t.Fatalf("a slow connection is open after %s", time.Since(began))
		}
	}
	if conn := slowly(t, p, cred, request("GET", "Connection: close\r\n")); conn == nil ||
		!until(conn, time.Now().Add(5*deadline)) {
		t.Error("the certificate did not get its places back")
	}
	if age := time.Since(began); age < deadline+deadline/2 {
		time.Sleep(deadline + deadline/2 - age)
	}
	if err := browser.Write(short(t), websocket.MessageBinary, []byte("still here")); err != nil {
		t.Fatal(err)
	}
	if _, b, err := browser.Read(short(t)); err != nil || string(b) != "still here" {
		t.Fatalf("the stream in progress: %q %v", b, err)
	}
	_ = browser.Close(websocket.StatusNormalClosure, "")
	<-left
}

// openSession is a browser's terminal on a node that echoes, ready for use; left gets the code that ended the node's
// leg.
func openSession(t *testing.T, p *platformtest.Platform) (browser *websocket.Conn, left chan websocket.StatusCode) {
	t.Helper()
	left = make(chan websocket.StatusCode, 1)
	fakeNode{t, p, p.Enroll(platformtest.NodeID)}.stream(func(conn *websocket.Conn) {
		sendFrame(t, conn, wire.Frame{Type: "ready", CorrelationID: correlationID})
		go echo(conn, left)
	})
	m := mint(t, p)
	browser, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	if f := readFrame(t, browser); f.Type != "ready" {
		t.Fatalf("first frame %+v", f)
	}
	return browser, left
}

// TestSilentHandshakes: an address that begins handshakes and says nothing is refused more of them, and another address
// is not in its way: the limit of one is far below that of all.
func TestSilentHandshakes(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{Door: platform.Door{Limits: gateway.Limits{PerAddress: 4}}})
	cred := p.Enroll(platformtest.NodeID)
	address := strings.TrimPrefix(p.NodeTerminalURL, "https://")
	var silent []net.Conn
	for range 4 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		silent = append(silent, conn)
	}
	eventually(t, "a fifth handshake of the address is refused", func() bool { return slowly(t, p, cred, "") == nil })
	for _, conn := range silent {
		_ = conn.Close()
	}
	eventually(t, "their places are free again", func() bool {
		resp, err := p.NodeClient(cred).Get(p.NodeTerminalURL + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode > http.StatusOK-1
	})
}
