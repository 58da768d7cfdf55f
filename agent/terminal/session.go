// Package terminal gives an allocation's user a shell: it connects a node stream to the terminal gateway, checks
// the user, opens a PTY, starts the login shell, and then copies bytes both ways.
//
// The order is the contract: every failure after the stream is connected is written to the stream, so that the
// browser shows an error rather than a spinner. The package has no notion of tasks and retries; package agent
// calls it.
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
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/ptmx"
	"github.com/gpuaas/gpuaasctl/internal/ws"
)

// Longer than 300 lines: one session from its token to its end, with both directions of its stream.

const (
	// StreamTimeout bounds the connection to the gateway: half of the time that the gateway waits for a node.
	StreamTimeout = 10 * time.Second
	pongWithin    = 10 * time.Second
	pingEvery     = 30 * time.Second
	closeTimeout  = 500 * time.Millisecond
	drain         = 100 * time.Millisecond // for output of a shell's children after it exited
	flush         = 5 * time.Second        // for earlier output, over a slow stream
	maxMessage    = 1 << 20                // a paste
	maxRefusal    = 64 << 10               // an error page
)

// Error is why a terminal could not be opened: a code of package wire for the user, and the cause.
type Error struct {
	Code   string
	Stream bool // the node stream failed, so the user got no report
	Status int  // the gateway's HTTP status, 0 if there was none
	// Limiter is what refused the stream before it reached the gateway, diag.NoLimiter for any other failure.
	Limiter diag.Limiter
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Options describe the terminal to open.
type Options struct {
	URL         string // of the node stream, https
	Transport   http.RoundTripper
	Correlation string
	// headers of the upgrade in addition to the correlation id, such as the host's name; nil: none
	Header     http.Header
	User       string
	MinUID     uint32 // a lower id is refused: root's and the system's
	Cols, Rows uint16 // default 80x24
	Limits     Limits // of the session's unit
}

// Session is an open terminal. Run must be called, and ends it.
type Session struct {
	conn   *ws.Conn
	shell  *shell
	first  []byte      // the shell's output before Run
	typing atomic.Bool // input is blocked until the shell reads it, which delays pongs
}

// Open connects the node stream, starts the shell, and sends the ready frame. Its error is an *Error, which was
// also sent over the stream if that exists.
func Open(ctx context.Context, o Options) (*Session, error) {
	conn, err := connect(ctx, o)
	if err != nil {
		return nil, overruled(ctx, err)
	}
	s := &Session{conn: conn}
	if err := s.start(ctx, o); err != nil {
		e := overruled(ctx, err)
		if e.Code == wire.CodeAgentStopping { // as in Run: a stop has no error frame
			conn.Close(ws.GoingAway, e.Code, closeTimeout)
			return nil, e
		}
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

// overruled returns a failure as an *Error. If ctx was canceled, the error has the code of the decision that did that,
// or wire.CodeAgentStopping, whatever step failed: a failure under a cancellation is no evidence about user or shell.
func overruled(ctx context.Context, err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: wire.CodePTYFailed, Err: err}
	}
	if !e.Stream && !slices.Contains(accountCodes[:], e.Code) {
		awaitStop(ctx)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		e.Code = decisionOf(ctx)
	}
	return e
}

// accountCodes are the failures that were read from the account. Any other failure may be a program that was killed.
var accountCodes = [...]string{wire.CodeUserMissing, wire.CodeShellMissing, wire.CodeUserRefused}

// stopNotice is how much earlier a stop may kill a program of the agent than it cancels the agent's context: systemd
// signals the whole control group at once, and the agent's signal handler may be late.
const stopNotice = 500 * time.Millisecond

// awaitStop waits until ctx is done, at most stopNotice.
func awaitStop(ctx context.Context) {
	timer := time.NewTimer(stopNotice)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Confinement returns the limits of the session.
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
	stream, _ := resp.Body.(io.ReadWriteCloser) // the Body that http.Transport returns for an upgrade
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

// streamError classifies a failure to connect the node stream, with the gateway's own code if it sent one.
func streamError(ctx context.Context, resp *http.Response, err error) *Error {
	e := &Error{Code: CodeStreamFailed, Stream: true, Err: fmt.Errorf("connect the node stream: %w", err)}
	if ctx.Err() != nil {
		e.Code = wire.CodeNodeStreamTimeout
	}
	if resp == nil {
		return e
	}
	e.Status = resp.StatusCode
	if e.Status == http.StatusSwitchingProtocols { // a malformed upgrade: the body is a stream and no envelope
		return e
	}
	var envelope wire.ErrorBody
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // of an interrupted response, what was received
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

// CodeStreamFailed is the code of a node stream failure without a more specific code.
const CodeStreamFailed = "node_stream_failed"

// shellExited is the end of a session whose shell exited by itself.
const shellExited = "shell_exited"

// End describes how a session ended.
type End struct {
	Why      string // shell_exited | stream_closed | agent_stopping, or the decision that ended it: one of wire.End*
	ExitCode int    // of the shell, if it exited
}

// Decided is the cause of a context that a decision canceled: one of wire.End*.
type Decided string

func (d Decided) Error() string { return string(d) }

// closeDecided is the close code on both legs of a session that a decision ended.
const closeDecided = 4000

// Run copies bytes until the shell exits, the stream ends or ctx is done. When it returns, the shell is gone and
// reaped, and the stream closed. If the cause of ctx is a Decided, it closes the stream with that as reason.
func (s *Session) Run(ctx context.Context) End {
	var (
		wg               sync.WaitGroup
		inDone, outDone  = make(chan struct{}), make(chan struct{})
		pingCtx, pingEnd = context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx: a last frame has to be sent
	)
	var closed string // from the gateway's close frame; readable after inDone
	var left bool     // the shell closed its terminal; readable after outDone
	wg.Go(func() { defer close(inDone); closed = s.in() })
	wg.Go(func() { defer close(outDone); left = s.out() })
	wg.Go(func() { s.ping(pingCtx) })
	end := End{Why: "stream_closed"}
	select {
	case <-s.shell.exited:
		if end = s.shellEnd(ctx); end.Why != shellExited {
			break
		}
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
			if end = s.shellEnd(ctx); end.Why == shellExited {
				_ = s.send(wire.Frame{Type: "exit", ExitCode: &end.ExitCode})
			}
		case <-ctx.Done():
			end.Why = decisionOf(ctx)
		case <-time.After(farewell):
		}
	case <-ctx.Done():
		end.Why = decisionOf(ctx)
	}
	pingEnd()
	s.shell.end()
	code := ws.Normal
	switch {
	case end.Why == wire.CodeAgentStopping:
		code = ws.GoingAway
	case wire.Decided(end.Why):
		code = closeDecided
	}
	s.conn.Close(code, end.Why, closeTimeout)
	wg.Wait()
	return end
}

// shellEnd returns how the session ended, once its shell has exited: by the stop or the decision that killed the shell,
// else by the shell itself.
func (s *Session) shellEnd(ctx context.Context) End {
	if s.shell.code >= signaled {
		awaitStop(ctx)
	}
	if ctx.Err() != nil {
		return End{Why: decisionOf(ctx)}
	}
	return End{Why: shellExited, ExitCode: s.shell.code}
}

// decisionOf returns the code of the decision that canceled ctx, or wire.CodeAgentStopping if it was none.
func decisionOf(ctx context.Context) string {
	var why Decided
	if errors.As(context.Cause(ctx), &why) {
		return string(why)
	}
	return wire.CodeAgentStopping
}

// in copies the stream to the PTY until either ends, and returns the gateway's close reason.
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
			_ = ptmx.Resize(s.shell.master, f.Cols, f.Rows) // the shell may be gone
		}
	}
}

// out copies the PTY to the stream until either ends, and reports whether it was the PTY. The PTY ends with EIO
// or, after its deadline, with the last byte in its buffer.
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

// ping detects a peer that vanished without closing the stream.
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
