package net

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/ws"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// lastWords is how long to wait for the close frame after an error frame, or after the shell's end.
const lastWords = 500 * time.Millisecond

// noHistory is typed first: without HISTFILE, neither bash nor zsh writes what was typed to the tenant's home, even if
// the shell is hung up. It is a line of its own, so that a shell that rejects it still runs the next one. Each line
// begins with a blank for shells that keep such lines out of their history. Only a zsh that appends each line as it is
// entered, and has no HIST_IGNORE_SPACE, keeps this one line.
const noHistory = " unset HISTFILE\n"

// askAgain is when a shell that did not answer is asked in the second way: later than a slow prompt, and well within a
// session's budget.
const askAgain = 3 * time.Second

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

// terminal is an open session. Its reader ends with the connection.
type terminal struct {
	c       *exchange
	ws      *ws.Conn
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
		if t.ws.Write(ws.Binary, []byte(" exit\n")) == nil {
			t.waitEnd(ctx)
		}
	})
}

// Hold keeps a session open: after a shell has computed, it types lines, calls opened, and reads until the peer ends
// the session or ctx is done. The fact has the code and the reason of the end; an end before the shell computed is a
// failure as well.
func (p *Prober) Hold(ctx context.Context, req diag.Request, f *diag.Fact, lines string, opened func()) {
	p.inShell(ctx, req, f, func(ctx context.Context, t *terminal) {
		if err := t.ws.Write(ws.Binary, []byte(lines)); err != nil {
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
	t := &terminal{c: c, ws: conn, frames: make(chan frame), gone: make(chan struct{}), opened: time.Now(),
		upgrade: time.Duration(f.WS.DurationMS) * time.Millisecond}
	t.last = t.opened
	read := make(chan struct{})
	go func() {
		defer close(read)
		t.read()
	}()
	pinged := make(chan pong, 1)
	go func() { pinged <- t.ping(ctx) }()
	if t.first(ctx) && t.compute(ctx) {
		use(ctx, t)
	}
	if f.Failure != diag.OK {
		t.account(ctx)
	}
	close(t.gone)
	conn.Close(ws.Normal, "", byeTime)
	<-read
	if p := <-pinged; f.Failure != diag.OK {
		f.WS.PingMS, f.WS.PingLost = p.took, p.lost
	}
}

// maxExitCode is above every exit code that a shell or a server gives.
const maxExitCode = 1 << 31

// read passes frames on until the connection ends.
func (t *terminal) read() {
	for {
		kind, b, err := t.ws.Read()
		fr := frame{kind: frameData, data: b, err: err}
		if err == nil && kind == ws.Text {
			var text struct {
				Type, Code, Message string
				ExitCode            *int `json:"exit_code"`
			}
			if bounded.Unmarshal(b, &text, bounded.Small()) == nil && text.Type != "" {
				if c := text.ExitCode; c != nil && (*c < -maxExitCode || *c > maxExitCode) {
					text.ExitCode = nil // no shell has it, and the report could not be read again
				}
				fr = frame{kind: text.Type, code: text.Code, message: text.Message, exit: text.ExitCode}
			}
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
	w := t.c.f.WS
	select {
	case fr := <-t.frames:
		if fr.err != nil {
			t.ended(ctx, phaseWS, diag.WSSilent, fr.err)
			return false
		}
		w.FirstFrame, w.FirstFrameMS = fr.kind, since(t.opened)
		return t.handleFrame(ctx, fr)
	case <-ctx.Done():
		t.c.stopped(ctx, phaseWS, diag.WSSilent, diag.WSSilent, errors.New("no frame came"))
		return false
	}
}

// handleFrame handles one frame, and reports whether the session continues.
func (t *terminal) handleFrame(ctx context.Context, fr frame) bool {
	t.last = time.Now()
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

// compute lets the shell at the far end multiply, which a terminal that only echoes cannot. The multiplication runs in
// a subshell, since a shell that cannot fork is useless. The second way is for shells without arithmetic. It reports
// whether a shell answered.
func (t *terminal) compute(ctx context.Context) bool {
	pty := t.pty()
	began := time.Now()
	ways := [...]string{" (echo $((%d*%d)))\n", " expr %d \\* %d\n"}
	var wants []string
	ask := func() error {
		a, b := 10000+rand.IntN(90000), 10000+rand.IntN(90000)
		line := fmt.Sprintf(ways[len(wants)], a, b)
		wants, t.typed = append(wants, fmt.Sprint(a*b)), append(t.typed, strings.TrimSpace(line))
		return t.ws.Write(ws.Binary, []byte(line))
	}
	again := time.NewTimer(askAgain)
	defer again.Stop()
	t.typed = append(t.typed, strings.TrimSpace(noHistory))
	err := t.ws.Write(ws.Binary, []byte(noHistory))
	if err == nil {
		err = ask()
	}
	for err == nil {
		for _, want := range wants {
			if strings.Contains(t.out.text, want) {
				pty.NonceOK, pty.DurationMS = true, since(began)
				return true
			}
		}
		select {
		case fr := <-t.frames:
			if fr.err != nil {
				err = fr.err
			} else if !t.handleFrame(ctx, fr) {
				return false
			}
		case <-again.C:
			err = ask()
		case <-ctx.Done():
			pty.DurationMS = since(began)
			t.c.stopped(ctx, phasePTY, diag.PTYSilent, diag.PTYSilent, errors.New("no shell computed the nonce"))
			return false
		}
	}
	pty.DurationMS = since(began)
	t.ended(ctx, phasePTY, diag.PTYSilent, err)
	return false
}
