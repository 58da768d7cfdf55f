package platform_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// openTerminal attaches a browser to a node whose stream is passed to serve after its ready frame.
func openTerminal(t *testing.T, p *platformtest.Platform, serve func(*websocket.Conn),
	edit ...func(*websocket.DialOptions)) (*websocket.Conn, minted) {
	t.Helper()
	node := fakeNode{t, p, p.Enroll(platformtest.NodeID)}
	node.stream(func(conn *websocket.Conn) {
		sendFrame(t, conn, wire.Frame{Type: "ready"})
		go serve(conn)
	}, edit...)
	m := mint(t, p)
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	if f := readFrame(t, conn); f.Type != "ready" {
		t.Fatalf("frame %+v", f)
	}
	return conn, m
}

// TestBridgeKeepsEveryByte: a browser that reads slowly blocks the node; nothing is lost, reordered or buffered
// without bound.
func TestBridgeKeepsEveryByte(t *testing.T) {
	tier.NeedsHost(t)
	_, p := withRedis(t)
	const frames, size = 1500, 32 << 10 // 49 MB: more than the kernel buffers of all the connections on the way
	want := make([]byte, size)
	seeded := rand.NewChaCha8([32]byte{1})
	_, _ = seeded.Read(want)
	sent, taken := make(chan error, 1), make(chan struct{})
	conn, m := openTerminal(t, p, func(c *websocket.Conn) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		c.CloseRead(ctx) // answers the gateway's pings, in case this takes long
		for range frames {
			if err := c.Write(ctx, websocket.MessageBinary, want); err != nil {
				sent <- err
				return
			}
		}
		select {
		case <-taken: // a close waits a few seconds for its answer, which follows all of this data
		case <-ctx.Done():
		}
		sent <- c.Close(websocket.StatusNormalClosure, "")
	})
	conn.SetReadLimit(1 << 20)
	time.Sleep(200 * time.Millisecond)
	select {
	case err := <-sent:
		t.Fatalf("%d bytes went through to a browser that does not read (%v)", frames*size, err)
	default:
	}
	for i := range frames {
		kind, b, err := conn.Read(short(t))
		if err != nil || kind != websocket.MessageBinary || !bytes.Equal(b, want) {
			t.Fatalf("frame %d: %v, %d bytes, %v", i, kind, len(b), err)
		}
	}
	close(taken)
	if f := readFrame(t, conn); f.Code != "node_stream_closed" {
		t.Errorf("frame %+v", f)
	}
	wantClose(t, conn, 4502, "node_stream_closed")
	if err := <-sent; err != nil {
		t.Errorf("the node's side: %v", err)
	}
	if s := session(t, p, m.SessionID); s.PTY == "" || s.Reason != "node_stream_closed" {
		t.Errorf("session %+v", s)
	}
}

// TestBrowserLeavesBeforeTheNodeComes: the session ends at once, and the node gets an error, since no browser
// waits.
func TestBrowserLeavesBeforeTheNodeComes(t *testing.T) {
	_, p := withRedis(t)
	node := fakeNode{t, p, p.Enroll(platformtest.NodeID)}
	m := mint(t, p)
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the session is closed", func() bool { return session(t, p, m.SessionID).Reason == "browser_closed" })
	_, resp, err := node.dialStream(short(t), m.SessionID)
	if err == nil || envelope(t, resp).Code != wire.CodeSessionNotFound {
		t.Errorf("a stream for a browser that left: %v", err)
	}
}

// TestBrowserCut: a connection that breaks without a close frame ends the node's leg.
func TestBrowserCut(t *testing.T) {
	_, p := withRedis(t)
	left := make(chan websocket.StatusCode, 1)
	conn, m := openTerminal(t, p, func(c *websocket.Conn) { echo(c, left) })
	conn.CloseNow()
	select {
	case code := <-left:
		if code != websocket.StatusNormalClosure {
			t.Errorf("the node's leg was closed with %d", code)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the node's leg stays open")
	}
	wait.For(t, "the session is closed", func() bool { return session(t, p, m.SessionID).Reason == "browser_closed" })
}
