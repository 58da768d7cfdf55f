package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// fromBrowser copies the browser's frames to the node once that has joined; until then TCP holds up the browser.
// It returns when either side has disconnected.
func (s *session) fromBrowser(ctx context.Context, browser *websocket.Conn) ending {
	for {
		kind, data, err := browser.Read(ctx)
		if err != nil {
			return browserGone(err)
		}
		select {
		case <-s.joined:
		case <-ctx.Done():
			return browserGone(ctx.Err())
		}
		s.touch()
		if err := write(ctx, s.node, kind, data); err != nil {
			return nodeGone(err)
		}
	}
}

// fromNode copies the node's frames to the browser, and records the terminal's state in them before the browser
// gets them.
func (g *Gateway) fromNode(ctx context.Context, s *session, browser *websocket.Conn) ending {
	end := ending{reason: reasonNodeClosed}
	said := false // whether the node has reported its terminal's state
	for {
		kind, data, err := s.node.Read(ctx)
		if err != nil {
			return g.nodeLeft(ctx, s, err)
		}
		s.touch()
		if kind == websocket.MessageText {
			var f wire.Frame
			if bounded.Unmarshal(data, &f, bounded.Small()) == nil {
				final := g.storeState(ctx, s, f, &end)
				if !said && (final || f.Type == "ready") {
					said = true
					close(s.ready)
				}
			}
		}
		if err := write(ctx, browser, kind, data); err != nil {
			return browserGone(err)
		}
		if end.reason != reasonNodeClosed {
			return end
		}
	}
}

// nodeLeft returns the ending of a session whose node closed its stream: a decision, if the node names one that
// was really made.
func (g *Gateway) nodeLeft(ctx context.Context, s *session, err error) ending {
	var closed websocket.CloseError
	if errors.As(err, &closed) && wire.Decided(closed.Reason) && g.fell(ctx, s, closed.Reason) {
		return s.decided(closed.Reason)
	}
	return nodeGone(err)
}

// fell reports whether a decision that a node names was made: the node's claim alone is not enough. A decision
// ends the session by itself, but the node may hear of it first.
func (g *Gateway) fell(ctx context.Context, s *session, reason string) bool {
	if reason == wire.EndSessionLimit {
		return time.Since(s.began) > g.SessionLimit-limitSlack
	}
	now, err := g.standing(ctx, s.row, s.source.Load())
	if err != nil {
		g.Log.Error("check the decision that a node reports", "session_id", s.row.ID, "error", err)
	}
	return err == nil && now != ""
}

// limitSlack is how much earlier a session may reach its time limit by the node's clock.
const limitSlack = 5 * time.Second

// storeState stores the state in a node's frame; it returns true for the session's last frame, which sets end.
func (g *Gateway) storeState(ctx context.Context, s *session, f wire.Frame, end *ending) bool {
	switch f.Type {
	case "ready":
		if err := g.Store.Reached(ctx, s.now(), store.StepPTY, g.Now(), nil); err != nil {
			g.Log.Error("note terminal", "session_id", s.row.ID, "error", err)
		}
		return false
	case "error":
		*end = ending{reason: orElse(f.Code, wire.CodePTYFailed), code: closeNodeError, how: byNode}
		switch {
		case !wire.Decided(f.Code):
		case g.fell(ctx, s, f.Code): // the node heard of it first
			end.code, end.how.By = closeSessionEnded, wire.ByDecision
		default:
			end.reason, end.how.Detail = wire.CodePTYFailed, "it reported "+f.Code+", but there is no such decision"
		}
		g.record(ctx, s.evidence(store.TerminalError, g.Now(),
			map[string]any{"code": f.Code, "message": f.Message, "from": "node"}))
		return true
	case "exit":
		*end = ending{reason: reasonExit, code: websocket.StatusNormalClosure, how: byNode}
		if f.ExitCode != nil {
			end.how.Detail = fmt.Sprintf("the shell ended with code %d", *f.ExitCode)
		}
		return true
	}
	return false
}

func orElse(s, other string) string {
	if s == "" || len(s) > 100 { // a close reason has at most 123 bytes
		return other
	}
	return s
}

// write sends one frame within writeTime.
func write(ctx context.Context, conn *websocket.Conn, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return conn.Write(ctx, kind, data)
}

// keepAlive sends pings until the peer does not answer, and then reports errNoPong; a reader must run
// concurrently.
func keepAlive(ctx context.Context, conn *websocket.Conn, reason string) ending {
	gone := nodeGone
	if reason == reasonBrowserClosed {
		gone = browserGone
	}
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return gone(ctx.Err())
		}
		pctx, cancel := context.WithTimeout(ctx, pingTime)
		err := conn.Ping(pctx)
		cancel()
		if err != nil {
			return gone(fmt.Errorf("%w within %s: %w", errNoPong, pingTime, err))
		}
	}
}
