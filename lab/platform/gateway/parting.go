package gateway

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// State of the ping that was sent to the node because the browser had sent one.
const (
	notAsked int32 = iota
	silent
	answered
)

// byGateway and byNode are endings that need no detail besides the reason.
var (
	byGateway = store.Closing{By: wire.ByGateway}
	byNode    = store.Closing{By: wire.ByNode}
)

// errNoPong means that a side does not answer pings.
var errNoPong = errors.New("no answer to a ping")

func browserGone(err error) ending {
	return ending{reason: reasonBrowserClosed, code: closeSessionEnded, how: parting(wire.ByBrowser, err)}
}

func nodeGone(err error) ending {
	return ending{reason: reasonNodeClosed, code: closeNodeError, how: parting(wire.ByNode, err)}
}

// parting returns how a side disconnected, from a read or write error: its close frame, or how its connection
// broke.
func parting(side string, err error) store.Closing {
	how := store.Closing{By: side, Code: wire.CloseBroken}
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed):
		how.Code, how.Detail = int(closed.Code), strings.ToValidUTF8(closed.Reason, "?")
	case errors.Is(err, errNoPong):
		how.Detail = "it did not answer a ping"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		how.Detail = "its connection was reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		how.Detail = "its connection ended without a close frame"
	case errors.Is(err, context.DeadlineExceeded):
		how.Detail = "it took no data"
	default:
		how.Detail = "its connection broke"
	}
	return how
}

// requestNodePing makes askNode ping the node: a browser that sends a ping waits for something. It never blocks.
func (s *session) requestNodePing() {
	s.answer.Store(silent)
	select {
	case s.asked <- struct{}{}:
	default: // asked already
	}
}

// askNode pings the node for each of the browser's pings, until the session ends. A concurrent reader has to note
// the answers.
func (s *session) askNode(ctx context.Context) {
	for {
		select {
		case <-s.asked:
		case <-ctx.Done():
			return
		}
		pctx, cancel := context.WithTimeout(ctx, pingTime)
		_ = s.node.Ping(pctx) // keepAlive ends a session whose node stays silent
		cancel()
	}
}

// nodeAnswered notes a pong of the node. It is called by the reader of the node's frames, so later frames are
// handled after it.
func (s *session) nodeAnswered() { s.answer.CompareAndSwap(silent, answered) }

// nodeAnswers returns whether the node answered the last of the browser's pings, for store.Closing; "" without a
// node.
func (s *session) nodeAnswers() string {
	select {
	case <-s.joined:
	default:
		return ""
	}
	switch s.answer.Load() {
	case silent:
		return "no"
	case answered:
		return "yes"
	}
	return ""
}
