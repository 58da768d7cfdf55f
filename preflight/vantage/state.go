package vantage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

func (l *link) isReady() bool {
	select {
	case <-l.ready:
		return true
	default:
		return false
	}
}

// refusal returns why the login failed; nil while it is in progress or if it succeeded.
func (l *link) refusal() *refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// pending returns the refusal for a caller that stopped waiting for the login.
func (l *link) pending(ctx context.Context) *refusal {
	l.mu.Lock()
	phase, t, jump, keys := l.phase, l.target, l.jump, l.keys
	l.mu.Unlock()
	if keys != nil && phase == phaseAuth && keys.unsigned() != "" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return (&refusal{word: diag.SSHNoKey, phase: phase, detail: keys.unsigned()}).atJump(jump)
	}
	if jump != "" {
		return stopped(ctx, phase, "no answer in time, at "+phase).atJump(jump)
	}
	if phase == phaseExec {
		return stopped(ctx, phase, l.noAnswer())
	}
	return stopped(ctx, phase, silence(phase, &t))
}

// noAnswer describes a login that works, whose command has not answered.
func (l *link) noAnswer() string {
	l.mu.Lock()
	s, user, where := l.latest, l.target.user, l.target.address()
	l.mu.Unlock()
	if s == nil {
		return where + " logged us in and did not start a command"
	}
	took := time.Since(s.sent).Round(100 * time.Millisecond)
	if path := s.started(); path != "" {
		if l.wantSudo() {
			path += ", or the sudo before it,"
		}
		return withWords(fmt.Sprintf("%s logged us in, our shell runs, and %s did not answer within %s", where, path, took),
			s.words())
	}
	return withWords(fmt.Sprintf("%s logged us in and did not start the helper within %s: the shell of user %s or its "+
		"profile may be slow, or hang", where, took, user), s.words())
}

// sentAfter returns when a request made at t was in fact sent: not before the helper was started.
func (l *link) sentAfter(t time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent.After(t) {
		return l.sent
	}
	return t
}

// freshFor is how long a completed login proves that the server answers.
const freshFor = 500 * time.Millisecond

// aliveWait is how long a server may take for an answer that needs no program on its machine.
const aliveWait = 2 * time.Second

// alive returns what is wrong with a completed login, or nil. Unless the login is fresh, it sends a request that every
// server answers.
func (l *link) alive(ctx context.Context) *refusal {
	l.mu.Lock()
	failed, conn, fresh := l.failed, l.conn, !l.seen || time.Since(l.helloAt) < freshFor
	l.seen = true
	l.mu.Unlock()
	if failed != nil {
		return failed
	}
	if fresh {
		return nil
	}
	answer := make(chan error, 1)
	l.wg.Go(func() { // ends with the connection at the latest
		_, _, err := conn.SendRequest("keepalive@openssh.com", true, nil)
		answer <- err
	})
	select {
	case err := <-answer:
		if err != nil {
			return &refusal{word: diag.SSHTransport, phase: phaseExec, detail: "the connection broke: " + foreign(reason(err))}
		}
		return nil
	case <-ctx.Done():
		return stopped(ctx, phaseExec,
			fmt.Sprintf("the connection to %s is open, and the server does not answer on it", l.cfg.Host))
	}
}

// stillAlive reports whether the server answers within aliveWait on a connection whose helper does not: then the node
// is slow, and the connection is not broken.
func (l *link) stillAlive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveWait)
	defer cancel()
	return l.alive(ctx) == nil
}
