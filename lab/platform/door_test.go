package platform_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/gateway"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// slowly opens a connection to the node terminal and sends text; it returns nil if the connection was closed at
// once.
func slowly(t *testing.T, p *platformtest.Platform, cred platformtest.Credential, text string) *tls.Conn {
	t.Helper()
	tier.NeedsHost(t)
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", strings.TrimPrefix(p.NodeTerminalURL, "https://"), p.TLS(&cred))
	if err != nil {
		return nil
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, text) // an already closed connection shows in the read
	return conn
}

// until waits for the far end to close the connection; it returns false if the connection is still open at the
// deadline.
func until(conn *tls.Conn, deadline time.Time) bool {
	_ = conn.SetReadDeadline(deadline)
	_, err := io.Copy(io.Discard, conn)
	timeout, ok := err.(net.Error)
	return !ok || !timeout.Timeout()
}

// connections opens 150 connections with one certificate, which are idle or stop in the middle of a body, and
// returns those whose handshake succeeded on this side. The platform closes those over the limit afterwards.
func connections(t *testing.T, p *platformtest.Platform, cred platformtest.Credential) []*tls.Conn {
	t.Helper()
	var mu sync.Mutex
	var in []*tls.Conn
	var wg sync.WaitGroup
	for i := range 150 {
		wg.Go(func() {
			text := doorRequest("GET", "")
			if i%2 == 0 {
				text = doorRequest("POST", "Content-Length: 1000\r\n") + "half"
			}
			if conn := slowly(t, p, cred, text); conn != nil {
				mu.Lock()
				defer mu.Unlock()
				in = append(in, conn)
			}
		})
	}
	wg.Wait()
	return in
}

func doorRequest(method, more string) string {
	return fmt.Sprintf("%s /internal/v1/none HTTP/1.1\r\nHost: x\r\n%s\r\n", method, more)
}

// TestOneCertificatesConnections: at most 64 concurrent connections of one certificate are admitted.
func TestOneCertificatesConnections(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{
		Door: platform.PeerLimits{Idle: time.Hour, Request: time.Hour, Limits: gateway.Limits{PerAddress: 200}}})
	left := connections(t, p, p.Enroll(platformtest.NodeID))
	wait.For(t, "of 150 connections 64 are left", func() bool {
		left = slices.DeleteFunc(left, func(c *tls.Conn) bool { return until(c, time.Now().Add(time.Millisecond)) })
		return len(left) <= 64
	})
	if len(left) != 64 {
		t.Errorf("%d connections are left, want 64", len(left))
	}
}

// TestSlowConnections: one node's certificate cannot use up the node terminal: connections that are idle or stop
// in the middle of a body are closed at a deadline, and their slots are free again. A stream in progress outlasts
// both deadlines and keeps working.
func TestSlowConnections(t *testing.T) {
	tier.NeedsHost(t)
	const deadline = 4 * time.Second
	_, p := withRedis(t, func(o *platformtest.Options) {
		o.Door = platform.PeerLimits{Idle: deadline, Request: deadline, Limits: gateway.Limits{PerAddress: 200}}
	})
	browser, left := openSession(t, p)

	cred := p.Issue("compute-node-02", platformtest.IssueOptions{})
	began := time.Now()
	for _, conn := range connections(t, p, cred) {
		if !until(conn, time.Now().Add(30*time.Second)) {
			t.Fatalf("a slow connection is open after %s", time.Since(began))
		}
	}
	if conn := slowly(t, p, cred, doorRequest("GET", "Connection: close\r\n")); conn == nil ||
		!until(conn, time.Now().Add(30*time.Second)) {
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

// openSession opens a browser's terminal on a node that echoes, ready for use; left receives the code that ended
// the node's leg.
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

// TestSilentHandshakes: an address that opens connections without completing handshakes is limited, and does not
// block another address: the limit per address is far below the total.
func TestSilentHandshakes(t *testing.T) {
	tier.NeedsHost(t)
	limits := platform.PeerLimits{Limits: gateway.Limits{PerAddress: 4}}
	p := platformtest.StartPlatform(t, platformtest.Options{Door: limits})
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
	wait.For(t, "a fifth handshake of the address is refused", func() bool { return slowly(t, p, cred, "") == nil })
	for _, conn := range silent {
		_ = conn.Close()
	}
	wait.For(t, "their places are free again", func() bool {
		resp, err := p.NodeClient(cred).Get(p.NodeTerminalURL + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode > http.StatusOK-1
	})
}
