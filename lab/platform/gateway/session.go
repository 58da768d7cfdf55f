package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/queue"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

const (
	// writeTime is how long one side may block on a frame before the session ends, since it holds up the other
	// side.
	writeTime = 10 * time.Second
	// pingEvery is the interval for detecting vanished peers; pingTime is how long a peer may take to answer.
	pingEvery = 20 * time.Second
	pingTime  = 10 * time.Second
	// closeTime is how long a peer may take to answer a close.
	closeTime = time.Second
	// frameLimit bounds one frame of either side.
	frameLimit = 1 << 20
	// taskGrace is how much longer the terminal.open task lives than the wait for its stream.
	taskGrace = 2 * time.Second

	defaultCols, defaultRows = 80, 24
)

// Close codes of the gateway, in the range for applications.
const (
	// the terminal ended: by one of its sides, or by a decision (wire.End*)
	closeSessionEnded      websocket.StatusCode = 4000
	closeNodeStreamTimeout websocket.StatusCode = 4408
	closeNodeError         websocket.StatusCode = 4502 // the node sent an error, or disconnected
	closeShutdown          websocket.StatusCode = websocket.StatusGoingAway
)

// Close reasons in addition to the codes of package wire.
const (
	reasonBrowserClosed = "browser_closed"
	reasonNodeClosed    = "node_stream_closed"
	reasonShutdown      = "gateway_shutdown"
	reasonExit          = "exit"
	reasonEnqueue       = "terminal_open_failed"
)

// session is one terminal in progress.
type session struct {
	row    store.Session        // as admitted; read-only, since the node's request reads it
	taskID string               // id of the terminal.open; used only by serve and its goroutines
	taken  atomic.Bool          // a node stream was admitted
	stream chan *websocket.Conn // the node's connection, once
	done   chan struct{}        // closed when the session has ended

	joined chan struct{}   // closed once node is set
	node   *websocket.Conn // readable after joined
	ready  chan struct{}   // closed at the node's first ready, error or exit frame
	ends   chan ending     // results of the session's goroutines
	over   chan string     // why a decision ends the session; only the first is used

	began  time.Time
	active atomic.Int64                 // time of the last frame in either direction, in nanoseconds since began
	source atomic.Pointer[store.Source] // the host that joined

	asked  chan struct{} // the browser sent a ping, so the node has to be pinged as well
	answer atomic.Int32  // state of the last of these pings: notAsked, silent or answered
}

func newSession(row store.Session) *session {
	return &session{row: row, stream: make(chan *websocket.Conn), done: make(chan struct{}), joined: make(chan struct{}),
		ready: make(chan struct{}),
		ends:  make(chan ending, 4), // a slot for each pump and each pinger, so that none blocks
		over:  make(chan string, 1), asked: make(chan struct{}, 1), began: time.Now()}
}

// now returns the session's row with its task.
func (s *session) now() store.Session {
	row := s.row
	row.TaskID = s.taskID
	return row
}

// evidence returns an event of the session.
func (s *session) evidence(kind string, at time.Time, detail map[string]any) store.Evidence {
	return store.Evidence{At: at, Kind: kind, CorrelationID: s.row.CorrelationID, NodeID: s.row.NodeID,
		AllocationID: s.row.AllocationID, SessionID: s.row.ID, TaskID: s.taskID, Detail: detail}
}

// ending says why a session ended. Frame, if any, is still to be sent to the browser.
type ending struct {
	reason string
	code   websocket.StatusCode
	frame  *wire.Frame
	how    store.Closing
}

// afterwards returns a context with a short timeout for work after the request has ended.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
}

// serve runs a session whose browser is connected, until it has ended and everything is closed.
func (g *Gateway) serve(ctx context.Context, s *session, browser *websocket.Conn) {
	// Canceling io cuts both connections without a close frame, so it comes last.
	io, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	browser.SetReadLimit(frameLimit)
	var wg sync.WaitGroup
	var end *ending
	select {
	case reason := <-s.over: // decided after the browser was admitted: do not ask the node
		end = new(s.decided(reason))
	default:
		end = g.open(ctx, s)
	}
	if end == nil {
		wg.Go(func() { s.ends <- s.fromBrowser(io, browser) })
		wg.Go(func() { s.ends <- keepAlive(io, browser, reasonBrowserClosed) })
		end = new(g.await(ctx, io, s, browser, &wg))
	}
	g.finish(ctx, s, browser, *end, cut)
	wg.Wait()
	g.Log.Info("terminal session ended", "session_id", s.row.ID, "reason", end.reason, "correlation_id",
		s.row.CorrelationID)
}

// open records the browser and asks the node for its stream; it returns nil on success.
func (g *Gateway) open(ctx context.Context, s *session) *ending {
	err := g.Store.Reached(ctx, s.now(), store.StepBrowser, g.Now(), nil)
	if err == nil {
		err = g.enqueue(ctx, s)
	}
	if err == nil {
		return nil
	}
	g.Log.Error("open terminal session", "session_id", s.row.ID, "error", err)
	return &ending{reason: reasonEnqueue, code: websocket.StatusInternalError, how: byGateway,
		frame: s.errorFrame(reasonEnqueue, "the platform could not ask the node for a terminal")}
}

func (g *Gateway) enqueue(ctx context.Context, s *session) error {
	payload, err := json.Marshal(wire.TerminalOpenPayload{SessionID: s.row.ID, AllocationID: s.row.AllocationID,
		OSUser: s.row.OSUser, Cols: defaultCols, Rows: defaultRows, MaxSeconds: int64(g.SessionLimit / time.Second)})
	if err != nil {
		return err
	}
	t, err := g.Queue.Enqueue(ctx,
		queue.Spec{NodeID: s.row.NodeID, Type: wire.TaskTerminalOpen, Payload: payload, TTL: g.NodeStreamTimeout + taskGrace,
			CorrelationID: s.row.CorrelationID, SessionID: s.row.ID, AllocationID: s.row.AllocationID})
	if err != nil {
		return err
	}
	s.taskID = t.ID
	return g.Store.SetSessionTask(ctx, s.row.ID, t.ID)
}

// await handles the session until its end: the node joins, the terminal is ready, one side disconnects, or the
// time is up.
func (g *Gateway) await(ctx, io context.Context, s *session, browser *websocket.Conn, wg *sync.WaitGroup) ending {
	timer, limit, idle := time.NewTimer(g.NodeStreamTimeout), time.NewTimer(g.SessionLimit), time.NewTimer(g.IdleLimit)
	defer timer.Stop()
	defer limit.Stop()
	defer idle.Stop()
	stream, ready := s.stream, s.ready
	for {
		select {
		case conn := <-stream:
			stream = nil
			conn.SetReadLimit(frameLimit)
			s.node = conn
			close(s.joined)
			if err := g.Store.Reached(ctx, s.now(), store.StepStream, g.Now(), nil); err != nil {
				g.Log.Error("note node stream", "session_id", s.row.ID, "error", err)
			}
			wg.Go(func() { s.ends <- g.fromNode(io, s, browser) })
			wg.Go(func() { s.ends <- keepAlive(io, conn, reasonNodeClosed) })
			wg.Go(func() { s.askNode(io) })
		case <-ready:
			ready = nil
			timer.Stop()
		case e := <-s.ends:
			if e.reason == reasonNodeClosed && e.frame == nil {
				e.frame = s.errorFrame(reasonNodeClosed, "the node ended the terminal's stream")
			}
			return e
		case <-timer.C:
			return s.timedOut(g.NodeStreamTimeout)
		case reason := <-s.over:
			return s.decided(reason)
		case <-limit.C:
			return s.decided(wire.EndSessionLimit)
		case <-idle.C:
			rest := g.IdleLimit - s.quiet()
			if rest <= 0 {
				return s.decided(wire.EndSessionIdle)
			}
			idle.Reset(rest)
		case <-ctx.Done():
			return ending{reason: reasonShutdown, code: closeShutdown, how: byGateway,
				frame: s.errorFrame(reasonShutdown, "the terminal gateway is stopping")}
		}
	}
}

// timedOut returns how far the session got.
func (s *session) timedOut(limit time.Duration) ending {
	text := fmt.Sprintf("the node opened no terminal stream within %s", limit)
	select {
	case <-s.joined:
		text = fmt.Sprintf("the node's stream is there, and its terminal was not ready within %s", limit)
	default:
	}
	return ending{
		reason: wire.CodeNodeStreamTimeout, code: closeNodeStreamTimeout, how: byGateway,
		frame: s.errorFrame(wire.CodeNodeStreamTimeout, text),
	}
}

func (s *session) errorFrame(code, message string) *wire.Frame {
	return &wire.Frame{Type: "error", Code: code, Message: message, CorrelationID: s.row.CorrelationID}
}

// finish records the end, sends it to the browser, and closes both sides. It always calls cut, at the latest when
// a peer has not answered its close in time.
func (g *Gateway) finish(ctx context.Context, s *session, browser *websocket.Conn, end ending, cut context.CancelFunc) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	g.remove(s) // a node that connects now gets an error, since no browser waits
	end.how.NodeAnswers = s.nodeAnswers()
	err := g.Store.CloseSession(ctx, s.now(), end.reason, end.how, g.Now())
	if end.reason == wire.CodeNodeStreamTimeout || (wire.Decided(end.reason) && s.taskID != "") {
		err = errors.Join(err, g.Queue.Withdraw(ctx, s.taskID))
	}
	watchdog := time.AfterFunc(closeTime+writeTime, cut)
	defer watchdog.Stop()
	var wg sync.WaitGroup
	select {
	case <-s.joined: // first: a browser that blocks must not keep the session open on the node
		wg.Go(func() { _ = s.node.Close(nodeCloseCode(end), end.reason) })
	default:
	}
	if end.frame != nil {
		g.record(ctx, s.evidence(store.TerminalError, g.Now(),
			map[string]any{"code": end.frame.Code, "message": end.frame.Message}))
		if b, bad := json.Marshal(end.frame); bad == nil {
			_ = write(ctx, browser, websocket.MessageText, b) // the browser may have disconnected
		}
	}
	if err := errors.Join(err, g.bindings.release(ctx, s.row.ID)); err != nil {
		g.Log.Error("end terminal session", "session_id", s.row.ID, "error", err)
	}
	watchdog.Reset(closeTime)
	wg.Go(func() { _ = browser.Close(end.code, end.reason) }) // a peer that does not answer is cut off
	wg.Wait()
	cut()
	close(s.done)
}

// nodeCloseCode returns a normal closure if the node's part ended well, otherwise the error's code.
func nodeCloseCode(end ending) websocket.StatusCode {
	if end.reason == reasonBrowserClosed || end.reason == reasonExit {
		return websocket.StatusNormalClosure
	}
	return end.code
}
