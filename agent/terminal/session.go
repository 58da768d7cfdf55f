// Package terminal gives an allocation's user a shell: a node stream to the terminal gateway first, then the user, a
// PTY and the login shell, then bytes both ways.
//
// The order is the contract: whatever goes wrong behind the stream is written to the stream, so that the browser shows
// an error and not a spinner. It knows nothing of tasks and of retries; package agent calls it.
package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/ptmx"
	"github.com/gpuaas/gpuaasctl/internal/ws"
	"github.com/gpuaas/gpuaasctl/wire"
)

// Longer than 300 lines: one session from its token to its end, with both directions of its stream.

const (
	// StreamTimeout bounds the way to the gateway: half of the gateway's own patience with a node.
	StreamTimeout = 10 * time.Second
	pongWithin    = 10 * time.Second
	pingEvery     = 30 * time.Second
	closeTimeout  = 500 * time.Millisecond
	drain         = 100 * time.Millisecond // what a shell's children print after it ended
	flush         = 5 * time.Second        // of what was printed before, over a slow stream
	maxMessage    = 1 << 20                // a paste
	maxRefusal    = 64 << 10               // an error page
)

// Error is why a terminal could not be opened: a code of package wire for the user's side, and the cause.
type Error struct {
	Code   string
	Stream bool // the node stream itself failed: it could not be reported
	Status int  // the gateway's HTTP status, 0 when it gave none
	// Limiter is what refused the stream before the gateway saw it, diag.NoLimiter for any other failure.
	Limiter diag.Limiter
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Options select which terminal to open.
type Options struct {
	URL         string // of the node stream, https
	Transport   http.RoundTripper
	Correlation string
	Header      http.Header // of the upgrade, beside the correlation id, such as which host this is; nil: none
	User        string
	MinUID      uint32 // a login below it is refused, root's and the system's own
	Cols, Rows  uint16 // default 80x24
	Limits      Limits // of the session's unit
}

// Session is an open terminal: Run must be called, and ends it.
type Session struct {
	conn   *ws.Conn
	shell  *shell
	first  []byte      // the shell's output before Run
	typing atomic.Bool // input waits for the shell to take it, so pongs wait, too
}

// Open connects the node stream, then starts the shell, then sends the ready frame. Its error is an *Error, which was
// sent over the stream where there is one.
func Open(ctx context.Context, o Options) (*Session, error) {
	conn, err := connect(ctx, o)
	if err != nil {
		return nil, overruled(ctx, err)
	}
	s := &Session{conn: conn}
	if err := s.start(ctx, o); err != nil {
		e := overruled(ctx, err)
		_ = s.send(wire.Frame{Type: "error", Code: e.Code, Message: e.Error(), CorrelationID: o.Correlation})
		conn.Close(ws.Normal, e.Code, closeTimeout)
		return nil, e
	}
	if err := s.send(wire.Frame{Type: "ready", CorrelationID: o.Correlation}); err != nil {
		s.shell.end()
		conn.Close(ws.InternalError, "", closeTimeout)
		return nil, &Error{Code: wire.CodeNodeStreamTimeout, Stream: true, Err: fmt.Errorf("say ready: %w", err)}
	}
	return s, nil
}

// overruled is a failure as an *Error: one that a decision brought about has the decision's code, whatever was cut off.
func overruled(ctx context.Context, err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: wire.CodePTYFailed, Err: err}
	}
	e.Code = decisionOf(ctx, e.Code)
	return e
}

// Confinement is what bounds the session.
func (s *Session) Confinement() Confinement { return s.shell.Confinement }

func (s *Session) start(ctx context.Context, o Options) error {
	u, err := lookup(ctx, o.User)
	if err != nil {
		return err
	}
	if err := mayLogIn(ctx, u, o.MinUID, time.Now()); err != nil {
		return err
	}
	cols, rows := o.Cols, o.Rows
	if cols == 0 || rows == 0 {
		cols, rows = 80, 24
	}
	sh, err := startShell(u, cols, rows, o.Limits)
	if err != nil {
		return err
	}
	if s.first, err = sh.firstWords(ctx, firstWordsWithin); err != nil {
		sh.end()
		return err
	}
	s.shell = sh
	return nil
}

func connect(ctx context.Context, o Options) (*ws.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, StreamTimeout)
	defer cancel()
	resp, err := handshake(ctx, o)
	if err != nil {
		return nil, streamError(ctx, nil, err)
	}
	stream, _ := resp.Body.(io.ReadWriteCloser) // what http.Transport gives with an upgrade
	conn, err := ws.Open(resp, stream, maxMessage)
	if err != nil {
		defer resp.Body.Close()
		return nil, streamError(ctx, resp, err)
	}
	return conn, nil
}

func handshake(ctx context.Context, o Options) (*http.Response, error) {
	r, err := ws.Request(ctx, o.URL, wire.TerminalSubprotocol)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, o.Header)
	r.Header.Set(wire.HeaderCorrelationID, o.Correlation)
	return o.Transport.RoundTrip(r)
}

// streamError names a node stream that could not be had, with the gateway's own code where it gave one.
func streamError(ctx context.Context, resp *http.Response, err error) *Error {
	e := &Error{Code: CodeStreamFailed, Stream: true, Err: fmt.Errorf("connect the node stream: %w", err)}
	if ctx.Err() != nil {
		e.Code = wire.CodeNodeStreamTimeout
	}
	if resp == nil {
		return e
	}
	e.Status = resp.StatusCode
	if e.Status == http.StatusSwitchingProtocols { // of a bad kind: there is a stream, and no envelope to read
		return e
	}
	var envelope wire.ErrorBody
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // of one that broke off, what came
	if bounded.Unmarshal(body, &envelope, bounded.Small()) == nil && envelope.Error.Code != "" {
		e.Code = envelope.Error.Code
		e.Err = fmt.Errorf("connect the node stream: %d %s", resp.StatusCode, envelope.Error.Message)
	}
	e.Limiter = diag.LimitedBy(diag.Refusal{
		Status: e.Status, Header: resp.Header.Get, Code: envelope.Error.Code, Body: body,
	})
	if e.Limiter != diag.NoLimiter && envelope.Error.Code == "" {
		e.Code = wire.CodeRateLimited
		e.Err = fmt.Errorf("connect the node stream: HTTP %d of a limiter (%s)", e.Status, e.Limiter)
	}
	return e
}

// CodeStreamFailed is the code of a node stream that failed in a way that has no code of its own.
const CodeStreamFailed = "node_stream_failed"

// End is how a session ended.
type End struct {
	Why      string // shell_exited | stream_closed | agent_stopping, or the decision that ended it, one of wire.End*
	ExitCode int    // of the shell, where it exited
}

// Decided is the cause of a context that ends a session by a decision: one of wire.End*.
type Decided string

func (d Decided) Error() string { return string(d) }

// closeDecided is the close code of a session that a decision ended, on both legs.
const closeDecided = 4000

// Run carries bytes until the shell exits, the stream ends or ctx is done. When it returns, the shell is gone and
// reaped, and the stream closed. A ctx whose cause is a Decided closes the stream with that as its reason.
func (s *Session) Run(ctx context.Context) End {
	var (
		wg               sync.WaitGroup
		inDone, outDone  = make(chan struct{}), make(chan struct{})
		pingCtx, pingEnd = context.WithCancel(context.WithoutCancel(ctx)) // ends later than ctx: there is a frame to send
	)
	var closed string // by the gateway's close; readable after inDone
	var left bool     // the shell has closed its terminal; readable after outDone
	wg.Go(func() { defer close(inDone); closed = s.in() })
	wg.Go(func() { defer close(outDone); left = s.out() })
	wg.Go(func() { s.ping(pingCtx) })
	end := End{Why: "stream_closed"}
	select {
	case <-s.shell.exited:
		end = End{Why: "shell_exited", ExitCode: s.shell.code}
		_ = s.shell.master.SetReadDeadline(time.Now().Add(drain))
		select {
		case <-outDone:
		case <-ctx.Done():
		case <-time.After(flush): // the stream takes nothing
		}
		_ = s.send(wire.Frame{Type: "exit", ExitCode: &end.ExitCode})
	case <-inDone:
		if wire.Decided(closed) {
			end.Why = closed
		}
	case <-outDone:
		if !left { // the stream takes no more bytes
			break
		}
		select {
		case <-s.shell.exited:
			end = End{Why: "shell_exited", ExitCode: s.shell.code}
			_ = s.send(wire.Frame{Type: "exit", ExitCode: &end.ExitCode})
		case <-ctx.Done():
			end.Why = decisionOf(ctx, "agent_stopping")
		case <-time.After(farewell):
		}
	case <-ctx.Done():
		end.Why = decisionOf(ctx, "agent_stopping")
	}
	pingEnd()
	s.shell.end()
	code := ws.Normal
	switch {
	case end.Why == "agent_stopping":
		code = ws.GoingAway
	case wire.Decided(end.Why):
		code = closeDecided
	}
	s.conn.Close(code, end.Why, closeTimeout)
	wg.Wait()
	return end
}

// decisionOf is the code of the decision that ended ctx; otherwise where none did.
func decisionOf(ctx context.Context, otherwise string) string {
	var why Decided
	if errors.As(context.Cause(ctx), &why) {
		return string(why)
	}
	return otherwise
}

// in carries the stream to the PTY until either ends, and returns the reason with which the gateway closed it.
func (s *Session) in() string {
	for {
		kind, data, err := s.conn.Read()
		if err != nil {
			var closed *ws.CloseError
			if errors.As(err, &closed) {
				return closed.Reason
			}
			return ""
		}
		if kind == ws.Binary {
			s.typing.Store(true)
			_, err := s.shell.master.Write(data)
			s.typing.Store(false)
			if err != nil {
				return ""
			}
			continue
		}
		var f wire.Frame
		if bounded.Unmarshal(data, &f, bounded.Small()) == nil && f.Type == "resize" && f.Cols > 0 && f.Rows > 0 {
			_ = ptmx.Resize(s.shell.master, f.Cols, f.Rows) // a shell that is gone has no size
		}
	}
}

// out carries the PTY to the stream until either ends, and reports whether it was the PTY. That ends with EIO; or, once
// it has a deadline, with the last byte that was in it then.
func (s *Session) out() bool {
	buf := make([]byte, 32<<10)
	n, rest := copy(buf, s.first), ptyHolds
	for {
		if n > 0 && s.conn.Write(ws.Binary, buf[:n]) != nil {
			return false
		}
		var err error
		if n, err = s.shell.master.Read(buf); errors.Is(err, os.ErrDeadlineExceeded) && n == 0 {
			n = s.shell.waiting(buf[:min(len(buf), rest)])
			rest -= n
		}
		if n == 0 && err != nil {
			return true
		}
	}
}

// ping notices a peer that vanished without a word.
func (s *Session) ping(ctx context.Context) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.typing.Load() {
			continue
		}
		if err := s.conn.Ping(pongWithin); err != nil && !s.typing.Load() {
			s.conn.CloseNow() // in ends by it
			return
		}
	}
}

func (s *Session) send(f wire.Frame) error {
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	return s.conn.Write(ws.Text, b)
}
