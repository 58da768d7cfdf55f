package platform_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// TestClosingIsRecorded: the session's row and its evidence record which side ended it, and how.
func TestClosingIsRecorded(t *testing.T) {
	hold := func(t *testing.T) func(*websocket.Conn) {
		left := make(chan websocket.StatusCode, 1)
		return func(c *websocket.Conn) { echo(c, left) }
	}
	asked := make(chan struct{}, 1)
	for name, tc := range map[string]struct {
		node    func(t *testing.T) func(*websocket.Conn)
		browser func(t *testing.T, c *websocket.Conn)
		want    sessionRead
	}{
		"browser closes": {hold, func(_ *testing.T, c *websocket.Conn) { _ = c.Close(4711, "enough") },
			sessionRead{Reason: "browser_closed", By: wire.ByBrowser, Code: 4711, Detail: "enough"}},
		"browser's connection breaks": {hold, func(_ *testing.T, c *websocket.Conn) { _ = c.CloseNow() },
			sessionRead{Reason: "browser_closed", By: wire.ByBrowser, Code: wire.CloseBroken,
				Detail: "its connection ended without a close frame"}},
		"agent stops": {func(*testing.T) func(*websocket.Conn) {
			return func(c *websocket.Conn) { _ = c.Close(websocket.StatusGoingAway, "agent_stopping") }
		}, nil, sessionRead{Reason: "node_stream_closed", By: wire.ByNode, Code: 1001, Detail: "agent_stopping"}},
		"node's connection breaks": {func(*testing.T) func(*websocket.Conn) {
			return func(c *websocket.Conn) { _ = c.CloseNow() }
		}, nil, sessionRead{Reason: "node_stream_closed", By: wire.ByNode, Code: wire.CloseBroken,
			Detail: "its connection ended without a close frame"}},
		"the node makes up a decision": {func(*testing.T) func(*websocket.Conn) {
			return func(c *websocket.Conn) { _ = c.Close(4000, wire.EndNodeFenced) }
		}, nil, sessionRead{Reason: "node_stream_closed", By: wire.ByNode, Code: 4000, Detail: wire.EndNodeFenced}},
		"the node makes up that the time is over": {func(t *testing.T) func(*websocket.Conn) {
			return func(c *websocket.Conn) { sendFrame(t, c, wire.Frame{Type: "error", Code: wire.EndSessionLimit}) }
		}, nil, sessionRead{Reason: wire.CodePTYFailed, By: wire.ByNode,
			Detail: "it reported session_time_limit, but there is no such decision"}},
		"shell ends": {func(t *testing.T) func(*websocket.Conn) {
			code := 137
			return func(c *websocket.Conn) { sendFrame(t, c, wire.Frame{Type: "exit", ExitCode: &code}) }
		}, nil, sessionRead{Reason: "exit", By: wire.ByNode, Detail: "the shell ended with code 137"}},
		"browser asks, node answers": {hold, func(t *testing.T, c *websocket.Conn) {
			ctx, back := short(t), make(chan error, 1)
			go func() { // beside the ping
				_, _, err := c.Read(ctx)
				back <- err
			}()
			if err := c.Ping(ctx); err != nil {
				t.Error(err)
			}
			select {
			case <-asked:
			case <-ctx.Done():
				t.Fatal("the node is not asked")
			}
			// Data that the node sends back arrives after its pong.
			if err := errors.Join(c.Write(ctx, websocket.MessageBinary, []byte("x")), <-back); err != nil {
				t.Fatal(err)
			}
			_ = c.Close(websocket.StatusNormalClosure, "")
		}, sessionRead{Reason: "browser_closed", By: wire.ByBrowser, Code: 1000, Answers: "yes"}},
		"browser asks, node is silent": {func(t *testing.T) func(*websocket.Conn) {
			return func(*websocket.Conn) { <-t.Context().Done() } // it reads nothing, so it answers no ping
		}, func(t *testing.T, c *websocket.Conn) {
			ctx := c.CloseRead(short(t))
			if err := c.Ping(ctx); err != nil {
				t.Error(err)
			}
			_ = c.Close(websocket.StatusNormalClosure, "")
		}, sessionRead{Reason: "browser_closed", By: wire.ByBrowser, Code: 1000, Answers: "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p := withRedis(t)
			conn, m := openTerminal(t, p, tc.node(t), func(o *websocket.DialOptions) {
				if tc.want.Answers == "yes" {
					o.OnPingReceived = func(context.Context, []byte) bool {
						select {
						case asked <- struct{}{}:
						default:
						}
						return true
					}
				}
			})
			if tc.browser != nil {
				tc.browser(t, conn)
			} else {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				for _, _, err := conn.Read(ctx); err == nil; {
					_, _, err = conn.Read(ctx)
				}
			}
			wait.For(t, "the session is closed", func() bool { return session(t, p, m.SessionID).Closed != "" })
			got := session(t, p, m.SessionID)
			got.Browser, got.Stream, got.PTY, got.Closed, got.Task.ID = "", "", "", "", ""
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			var said struct {
				Items []struct {
					Kind   string
					Detail struct {
						By string `json:"closed_by"`
					}
				}
			}
			p.Do(http.MethodGet, "/v1/admin/evidence?session_id="+m.SessionID, nil, &said)
			by := ""
			for _, item := range said.Items {
				if item.Kind == store.TerminalClosed {
					by = item.Detail.By
				}
			}
			if by != tc.want.By {
				t.Errorf("the evidence says %q, want %q", by, tc.want.By)
			}
		})
	}
}

// TestNodeHearsOfItFirst: the platform has stored a decision, and the node ends the session before the platform
// does.
func TestNodeHearsOfItFirst(t *testing.T) {
	_, p := withRedis(t)
	decided := make(chan struct{})
	conn, m := openTerminal(t, p, func(c *websocket.Conn) {
		<-decided
		_ = c.Close(4000, wire.EndNodeRevoked)
	})
	if _, err := p.Store().Decide(t.Context(),
		store.Decision{NodeID: platformtest.NodeID, Action: store.Revoke, By: "test", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	close(decided)
	ctx := short(t)
	for _, _, err := conn.Read(ctx); err == nil; {
		_, _, err = conn.Read(ctx)
	}
	wait.For(t, "the session is closed", func() bool { return session(t, p, m.SessionID).Closed != "" })
	if got := session(t, p, m.SessionID); got.Reason != wire.EndNodeRevoked || got.By != wire.ByDecision {
		t.Errorf("closed by %s: %s", got.By, got.Reason)
	}
}
