package net

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/ws"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// lastWords is how long to wait for the close frame after an error frame, or after the shell's end.
const lastWords = 500 * time.Millisecond

// The kinds of a first frame, as in WSFacts.FirstFrame.
const (
	frameReady = "ready"
	frameError = "error"
	frameExit  = "exit"
	frameData  = "data"
)

// frame is one frame of a terminal, or its end.
type frame struct {
	kind    string // ready, error, exit, data; other text frames are dropped
	code    string
	message string
	exit    *int
	data    []byte
	err     error
}

// channel carries the messages of a terminal: a WebSocket.
type channel interface {
	Read() (ws.Kind, []byte, error)
	Write(kind ws.Kind, message []byte) error
	Ping(within time.Duration) error
	Close(code int, reason string, within time.Duration)
}

// terminal is an open session. Its reader ends with the connection.
type terminal struct {
	c       *exchange
	ws      channel
	speech  speech
	frames  chan frame
	gone    chan struct{} // closed when frames are no longer read
	opened  time.Time
	upgrade time.Duration // how long that took
	last    time.Time     // when the last frame arrived
	out     plainText
	typed   []string // lines, which a terminal echoes
}

// session goes the whole way: upgrade, first frame, a nonce computed by a shell at the far end, and an orderly close.
func (p *Prober) session(ctx context.Context, req diag.Request, f *diag.Fact) {
	p.inShell(ctx, req, f, func(ctx context.Context, t *terminal) {
		if t.enter(" exit\n") == nil {
			t.waitEnd(ctx)
		}
	})
}

// Hold keeps a session open: after a shell has computed, it types lines, calls opened, and reads until the peer ends
// the session or ctx is done. The fact has the code and the reason of the end; an end before the shell computed is a
// failure as well.
func (p *Prober) Hold(ctx context.Context, req diag.Request, f *diag.Fact, lines string, opened func()) {
	p.inShell(ctx, req, f, func(ctx context.Context, t *terminal) {
		if err := t.enter(lines); err != nil {
			t.closing(err)
			return
		}
		opened()
		t.stay(ctx)
	})
}

// stay reads until the connection ends.
func (t *terminal) stay(ctx context.Context) {
	for {
		select {
		case fr := <-t.frames:
			if fr.err != nil {
				if ctx.Err() == nil { // otherwise we ended it ourselves
					t.closing(fr.err)
				}
				return
			}
			if fr.kind == frameError || fr.kind == frameExit {
				t.c.f.WS.FrameCode, t.c.f.WS.FrameMessage = scrub.Clean(t.c.req, fr.code), scrub.Clean(t.c.req, fr.message)
			}
		case <-ctx.Done():
			return
		}
	}
}

// inShell opens a terminal, lets its shell compute, and then calls use.
func (p *Prober) inShell(ctx context.Context, req diag.Request, f *diag.Fact, use func(context.Context, *terminal)) {
	c := p.newExchange(req, f)
	if c == nil {
		return
	}
	defer c.close()
	conn := c.upgrade(ctx)
	if conn == nil {
		return
	}
	release := c.link.guard(ctx)
	defer release()
	t := &terminal{c: c, ws: conn, speech: speech{as: req.Terminal, get: p.Lookup},
		upgrade: time.Duration(f.WS.DurationMS) * time.Millisecond}
	t.converse(ctx, use)
}

// converse lets the shell at the far end of an open channel compute, calls use, and closes the channel.
func (t *terminal) converse(ctx context.Context, use func(context.Context, *terminal)) {
	t.frames, t.gone, t.opened = make(chan frame), make(chan struct{}), time.Now()
	t.last = t.opened
	f := t.c.f
	read := make(chan struct{})
	go func() {
		defer close(read)
		t.read()
	}()
	pinged := make(chan pong, 1)
	go func() { pinged <- t.ping(ctx) }()
	t.greet()
	if t.first(ctx) && t.compute(ctx) {
		use(ctx, t)
	}
	if f.Failure != diag.OK {
		t.account(ctx)
	}
	close(t.gone)
	t.ws.Close(ws.Normal, "", byeTime)
	<-read
	if p := <-pinged; f.Failure != diag.OK {
		f.WS.PingMS, f.WS.PingLost = p.took, p.lost
	}
}

// greet sends the client's first messages. A broken connection shows when the answer is read.
func (t *terminal) greet() {
	for _, text := range t.c.hello() {
		if t.ws.Write(ws.Text, []byte(text)) != nil {
			return
		}
	}
}

// enter types text to the shell.
func (t *terminal) enter(text string) error { return t.ws.Write(t.speech.write(text)) }

// maxExitCode is above every exit code that a shell or a server gives.
const maxExitCode = 1 << 31

// read passes frames on until the connection ends.
func (t *terminal) read() {
	for {
		kind, b, err := t.ws.Read()
		fr := frame{err: err}
		if err == nil {
			fr = t.speech.read(kind, b)
		}
		switch {
		case err != nil, fr.kind == frameReady, fr.kind == frameError, fr.kind == frameExit, fr.kind == frameData:
			select {
			case t.frames <- fr:
			case <-t.gone:
			}
		}
		if err != nil {
			return
		}
	}
}

// first waits for the first frame, and reports whether a shell may be there.
func (t *terminal) first(ctx context.Context) bool {
	if t.speech.as != nil && t.speech.as.AtOnce {
		return true
	}
	select {
	case fr := <-t.frames:
		if fr.err != nil {
			t.ended(ctx, phaseWS, diag.WSSilent, fr.err)
			return false
		}
		return t.handleFrame(ctx, fr)
	case <-ctx.Done():
		t.c.stopped(ctx, phaseWS, diag.WSSilent, diag.WSSilent, errors.New("no frame came"))
		return false
	}
}

// handleFrame handles one frame, and reports whether the session continues.
func (t *terminal) handleFrame(ctx context.Context, fr frame) bool {
	t.last = time.Now()
	if w := t.c.f.WS; w.FirstFrame == "" {
		w.FirstFrame, w.FirstFrameMS = fr.kind, since(t.opened)
	}
	switch fr.kind {
	case frameData:
		t.pty().FirstByteMS = orNow(t.pty().FirstByteMS, t.opened)
		t.out.write(fr.data)
	case frameError, frameExit:
		w := t.c.f.WS
		w.FrameCode, w.FrameMessage = scrub.Clean(t.c.req, fr.code), scrub.Clean(t.c.req, fr.message)
		phase, word := codeWord(fr.code)
		if fr.kind == frameExit {
			phase, word = phasePTY, diag.PTYFailed // the shell ended before it was asked to
			w.ExitCode = fr.exit
		}
		t.c.failed(phase, word, fmt.Errorf("the far side sent %s %s", fr.kind, fr.code))
		t.waitEnd(ctx)
		return false
	}
	return true
}

func orNow(m diag.Millis, began time.Time) diag.Millis {
	if m != 0 {
		return m
	}
	return since(began)
}

func (t *terminal) pty() *diag.PTYFacts {
	if t.c.f.PTY == nil {
		t.c.f.PTY = &diag.PTYFacts{}
	}
	return t.c.f.PTY
}

// waitEnd gives the peer time to close, for its code and reason.
func (t *terminal) waitEnd(ctx context.Context) {
	timer := time.NewTimer(measure.Briefly(ctx, lastWords))
	defer timer.Stop()
	for {
		select {
		case fr := <-t.frames:
			if fr.err != nil {
				t.closing(fr.err)
				return
			}
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
