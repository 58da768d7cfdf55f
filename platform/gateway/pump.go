package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/platform/store"
	"github.com/gpuaas/gpuaasctl/wire"
)

// fromBrowser copies the browser's frames to the node, from when it is there; until then the browser is held up by
// TCP. It returns when either side is gone.
func (s *session) fromBrowser(ctx context.Context, browser *websocket.Conn) ending {
	for {
		kind, data, err := browser.Read(ctx)
		if err != nil {
			return ending{reason: reasonBrowserClosed, code: closeSessionEnded}
		}
		select {
		case <-s.joined:
		case <-ctx.Done():
			return ending{reason: reasonBrowserClosed, code: closeSessionEnded}
		}
		s.touch()
		if err := write(ctx, s.node, kind, data); err != nil {
			return ending{reason: reasonNodeClosed, code: closeNodeError}
		}
	}
}

// fromNode copies the node's frames to the browser and notes what they say of the terminal, before the browser knows.
func (g *Gateway) fromNode(ctx context.Context, s *session, browser *websocket.Conn) ending {
	end := ending{reason: reasonNodeClosed, code: closeNodeError}
	said := false // whether the node has said how its terminal stands
	for {
		kind, data, err := s.node.Read(ctx)
		if err != nil {
			return s.nodeLeft(err)
		}
		s.touch()
		if kind == websocket.MessageText {
			var f wire.Frame
			if bounded.Unmarshal(data, &f, bounded.Small()) == nil {
				final := g.note(ctx, s, f, &end)
				if !said && (final || f.Type == "ready") {
					said = true
					close(s.ready)
				}
			}
		}
		if err := write(ctx, browser, kind, data); err != nil {
			return ending{reason: reasonBrowserClosed, code: closeSessionEnded}
		}
		if end.reason != reasonNodeClosed {
			return end
		}
	}
}

// nodeLeft is the end of a session whose node closed its stream: by a decision where the node says so.
func (s *session) nodeLeft(err error) ending {
	var closed websocket.CloseError
	if errors.As(err, &closed) && wire.Decided(closed.Reason) {
		return s.decided(closed.Reason)
	}
	return ending{reason: reasonNodeClosed, code: closeNodeError}
}

// note stores what a frame of the node says; true when it is the session's last word, then end says so.
func (g *Gateway) note(ctx context.Context, s *session, f wire.Frame, end *ending) bool {
	switch f.Type {
	case "ready":
		if err := g.Store.Reached(ctx, s.now(), store.StepPTY, g.Now(), nil); err != nil {
			g.Log.Error("note terminal", "session_id", s.row.ID, "error", err)
		}
		return false
	case "error":
		*end = ending{reason: orElse(f.Code, wire.CodePTYFailed), code: closeNodeError}
		if wire.Decided(f.Code) { // the node heard of it first
			end.code = closeSessionEnded
		}
		g.record(ctx, s.evidence(store.TerminalError, g.Now(), map[string]any{"code": f.Code, "message": f.Message, "from": "node"}))
		return true
	case "exit":
		*end = ending{reason: reasonExit, code: websocket.StatusNormalClosure}
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

// write sends one frame, within its time.
func write(ctx context.Context, conn *websocket.Conn, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return conn.Write(ctx, kind, data)
}

// keepAlive pings until the peer does not answer, then gives that as the reason; a reader must run beside it.
func keepAlive(ctx context.Context, conn *websocket.Conn, reason string) ending {
	code := closeNodeError
	if reason == reasonBrowserClosed {
		code = closeSessionEnded
	}
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ending{reason: reason, code: code}
		}
		pctx, cancel := context.WithTimeout(ctx, pingTime)
		err := conn.Ping(pctx)
		cancel()
		if err != nil {
			return ending{reason: reason, code: code}
		}
	}
}
