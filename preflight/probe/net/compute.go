package net

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// noHistory is typed first: without HISTFILE, neither bash nor zsh writes what was typed to the tenant's home, even if
// the shell is hung up. It is a line of its own, so that a shell that rejects it still runs the next one. Each line
// begins with a blank for shells that keep such lines out of their history. Only a zsh that appends each line as it is
// entered, and has no HIST_IGNORE_SPACE, keeps this one line.
const noHistory = " unset HISTFILE\n"

// askAgain is when a shell that did not answer is asked in the second way: later than a slow prompt, and well within a
// session's budget.
const askAgain = 3 * time.Second

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
		return t.enter(line)
	}
	again := time.NewTimer(askAgain)
	defer again.Stop()
	t.typed = append(t.typed, strings.TrimSpace(noHistory))
	err := t.enter(noHistory)
	if err == nil {
		err = ask()
	}
	unsent := err != nil
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
			unsent = err != nil
		case <-ctx.Done():
			pty.DurationMS = since(began)
			if t.c.f.WS.FirstFrame == "" {
				t.c.stopped(ctx, phaseWS, diag.WSSilent, diag.WSSilent, errors.New("no frame came"))
				return false
			}
			t.c.stopped(ctx, phasePTY, diag.PTYSilent, diag.PTYSilent, errors.New("no shell computed the nonce"))
			return false
		}
	}
	pty.DurationMS = since(began)
	if unsent {
		if err = t.whyGone(ctx, err); err == nil {
			return false
		}
	}
	t.ended(ctx, phasePTY, diag.PTYSilent, err)
	return false
}

// whyGone returns why the peer takes no more: its close, which may still have to be read, else the error of the write;
// nil if a frame ended the session.
func (t *terminal) whyGone(ctx context.Context, err error) error {
	timer := time.NewTimer(measure.Briefly(ctx, lastWords))
	defer timer.Stop()
	for {
		select {
		case fr := <-t.frames:
			switch {
			case fr.err != nil:
				return fr.err
			case !t.handleFrame(ctx, fr):
				return nil
			}
		case <-timer.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}
