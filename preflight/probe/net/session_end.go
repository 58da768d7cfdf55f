package net

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/ws"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

const (
	// pingLead is how long before its deadline a session sends its one ping: late, so that the ping does not keep an
	// idle timeout on the way from firing, but with time for the gateway to ask the node as well.
	pingLead = 3 * time.Second
	// pingTrips is the minimum of pingLead as a multiple of the upgrade's duration.
	pingTrips = 5
	// pingSpare is the time that is left after a missing pong.
	pingSpare = 200 * time.Millisecond
	// maxLastLines bounds what is kept of a terminal's last lines, in runes.
	maxLastLines = 300
)

// ended records the end of the connection.
func (t *terminal) ended(ctx context.Context, phase string, late diag.Failure, err error) {
	word := diag.WSClosed
	if ctx.Err() == nil { // otherwise we ended it ourselves
		t.closing(err)
	}
	if p, w := codeWord(t.c.f.WS.CloseReason); w != diag.WSClosed {
		phase, word = p, w
	}
	t.c.stopped(ctx, phase, late, word, err)
}

// closing records how the peer ended the session; 1006 is the standard's code for a broken connection.
func (t *terminal) closing(err error) {
	w := t.c.f.WS
	var ce *ws.CloseError
	switch {
	case errors.As(err, &ce) && ce.Local():
		w.Ended = diag.WSEndError
	case errors.As(err, &ce):
		w.Ended, w.CloseCode, w.CloseReason = diag.WSEndClose, ce.Code, scrub.Clean(t.c.req, ce.Reason)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		w.Ended, w.CloseCode = diag.WSEndReset, ws.Abnormal
	case broken(err):
		w.Ended, w.CloseCode = diag.WSEndEOF, ws.Abnormal
	}
	if w.Ended != "" {
		w.EndedMS = since(t.opened)
	}
}

// account adds to a failed session how long the peer had been silent, and the last lines of its terminal.
func (t *terminal) account(ctx context.Context) {
	t.c.f.WS.QuietMS = since(t.last)
	if ctx.Err() != nil {
		t.collect()
	}
	if last := lastLines(scrub.Clean(t.c.req, t.out.text), t.typed); last != "" { // cleaned before it is cut
		t.pty().LastLines = last
	}
}

// collect takes the frames that have already arrived.
func (t *terminal) collect() {
	for {
		select {
		case fr := <-t.frames:
			if fr.err != nil {
				return
			}
			if fr.kind == frameData {
				t.out.write(fr.data)
			}
		default:
			return
		}
	}
}

// pong is the result of a session's one ping; zero if none was sent.
type pong struct {
	took diag.Millis
	lost bool
}

// ping sends a ping if the session is still open shortly before its deadline: if the pong arrives, the silence is not
// caused by the network between here and the gateway.
func (t *terminal) ping(ctx context.Context) pong {
	end, ok := ctx.Deadline()
	if !ok {
		return pong{}
	}
	lead := min(max(pingLead, pingTrips*t.upgrade), time.Until(end)/2)
	timer := time.NewTimer(time.Until(end) - lead)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.gone:
		return pong{}
	}
	began, wait := time.Now(), time.Until(end)-min(pingSpare, lead/4)
	if wait < lead/2 {
		return pong{} // this machine is late: the wait was too short to count a pong as lost
	}
	switch err := t.ws.Ping(wait); {
	case err == nil:
		return pong{took: since(began)}
	case timedOut(context.Background(), err):
		return pong{lost: true}
	}
	return pong{}
}

// LastWords returns the end of a terminal's output as one line of bounded length, without control sequences and
// scrubbed of secrets.
func LastWords(shown []byte) string {
	var text plainText
	text.write(shown)
	return lastLines(scrub.Text(text.text), nil)
}

// lastLines returns the end of a terminal's text as one line, without what was typed, and without characters that
// change how others are displayed.
func lastLines(text string, typed []string) string {
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(text, "?")) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, line))
		echoed := slices.ContainsFunc(typed, func(t string) bool { return strings.Contains(line, t) })
		if line != "" && !echoed && (len(lines) == 0 || lines[len(lines)-1] != line) {
			lines = append(lines, line)
		}
	}
	last := []rune(strings.Join(lines, " | "))
	if over := len(last) - maxLastLines; over > 0 {
		return "..." + string(last[over:])
	}
	return string(last)
}
