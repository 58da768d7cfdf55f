package vantage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
)

const (
	// helloTimeout bounds the start of an existing helper: some ten milliseconds, more on a node that swaps.
	helloTimeout = 5 * time.Second
	// execTimeout is the minimum time for everything after the login except a push.
	execTimeout = 2 * helloTimeout
	// inlineLimit bounds the requests that travel with the command: Linux limits one argument to 128 KiB.
	inlineLimit  = 32 << 10
	commandLimit = 96 << 10
)

// trial is one start of the helper, and its result.
type trial struct {
	s       *session
	sent    int // bytes of held requests that were sent with the command
	start   scriptLine
	hello   *probe.Hello
	line    []byte // the hello as it was received
	helloAt time.Time
	uname   string
	missing bool
	why     string // why there was no hello
}

// startHelper runs the helper over client and opens the gate to it. It uses a pushed or installed helper of ours, else
// it pushes one. Only if none can be pushed, it uses an installed gpuaas-agent of another build.
func (l *link) startHelper(ctx context.Context, client *ssh.Client, mine []Program) error {
	l.enter(phaseExec)
	l.set(func() { l.conn = client })
	began := time.Now()
	sudo := l.wantSudo()
	execCtx, cancel := context.WithTimeout(ctx, l.cfg.execWait())
	defer cancel()
	anyBuild := len(mine) == 0
	t, err := l.try(execCtx, client, sudo, mine, anyBuild)
	if err == nil && t.hello == nil && sudo && l.cfg.SSH.Sudo == nil && t.s.sudoRefused() {
		sudo = false
		l.noteNoSudo(t.s.words())
		t.s.end()
		t, err = l.try(execCtx, client, sudo, mine, anyBuild)
	}
	if err == nil && !l.suits(t) {
		t, err = l.replace(ctx, client, sudo, mine, t)
	}
	if no := (*refusal)(nil); sudo && l.cfg.SSH.Sudo == nil && errors.As(err, &no) &&
		strings.Contains(no.detail, "sudo:") {
		l.noteNoSudo(no.detail) // it was needed to push the helper
		if t, err = l.retry(ctx, client, false, mine, anyBuild); err == nil && !l.suits(t) {
			t, err = l.replace(ctx, client, false, mine, t)
		}
	}
	if err != nil {
		return err
	}
	l.set(func() { l.noteHelper(t, diag.Measured(t.helloAt.Sub(began))) })
	greeting := io.MultiReader(bytes.NewReader(t.line), t.s.facts)
	return l.gate.open(struct {
		io.Reader
		io.Closer
	}{greeting, t.s.facts}, t.s.ch, t.sent)
}

// noteNoSudo notes that the helper does not become root, by the words of sudo or of the shell that did not find it. A
// login without sudo is still useful: the facts show what was not permitted.
func (l *link) noteNoSudo(words string) {
	_, said, _ := strings.Cut(words, "sudo:")
	l.set(func() {
		l.ssh.SudoRefused = true
		l.ssh.SudoMissing = strings.Contains(said, "not found") || strings.Contains(said, "No such file")
	})
}

// noteHelper copies the hello's fields into the facts; the caller holds mu.
func (l *link) noteHelper(t *trial, took diag.Millis) {
	uid := t.hello.UID
	l.ssh.Helper, l.ssh.HelperPath, l.ssh.HelperVersion = t.start.how, t.start.path, t.hello.Version
	l.ssh.UID, l.ssh.ExecMS = &uid, took
	l.session, l.hello, l.sent, l.helloAt = t.s, *t.hello, t.s.sent, t.helloAt
	l.offset.add(t.hello.Now.Time, t.s.sent, t.helloAt)
}

// suits reports whether t's helper runs and has our version, if ours is known.
func (l *link) suits(t *trial) bool {
	return t.hello != nil && (l.cfg.Version == "" || t.hello.Version == l.cfg.Version)
}

// try starts the helper once. An error means that the login cannot run commands at all; a helper that is missing or
// ends without a hello is not an error. anyBuild also allows an installed gpuaas-agent of another build than those in
// mine.
func (l *link) try(ctx context.Context, client *ssh.Client, sudo bool, mine []Program, anyBuild bool) (*trial, error) {
	first := l.gate.first(inlineLimit)
	unit, envFile := l.cfg.Agent.OnNode()
	args := []string{"", l.cfg.binary(), unit, envFile, string(bytes.TrimRight(first, "\n")), ""}
	if sudo {
		args[0] = "sudo"
	}
	if anyBuild {
		args[5] = "any"
	}
	for _, h := range mine {
		args = append(args, h.Name, h.Sum)
	}
	cmd := command(runScript, false, args...)
	if len(cmd) > commandLimit { // quoting made it much longer
		first, args[4] = nil, ""
		cmd = command(runScript, false, args...)
	}
	s, err := l.exec(ctx, client, cmd)
	if err != nil {
		return nil, err
	}
	l.set(func() { l.latest = s })
	t := &trial{s: s, sent: len(first)}
	for {
		wait := l.cfg.helloWait()
		if t.start.word == "" || sudo { // a login shell, its profile and sudo may take long
			wait = 0
		}
		e, err := s.next(ctx, wait)
		switch {
		case errors.Is(err, errSilent):
			t.why = fmt.Sprintf("%s did not answer within %s", t.start.path, l.cfg.helloWait())
			return t, nil
		case err != nil:
			return nil, stopped(ctx, phaseExec, l.noAnswer())
		case e.hello != nil:
			t.hello, t.line, t.helloAt = e.hello, e.line, time.Now()
			return t, nil
		case e.note.word == "start":
			t.start = e.note
		case e.note.word == "missing":
			t.missing, t.uname, t.why = true, e.note.uname, "no gpuaas-agent that may be started is installed at "+l.cfg.binary()
			return t, nil
		case e.note.word == "exit":
			s.settle(ctx)
			t.uname, t.why = e.note.uname, withWords(t.start.path+" ended without an answer", s.words())
			return t, nil
		case e.ended:
			s.settle(ctx)
			return nil, noCommand(s)
		}
	}
}

// noCommand is the error of an exec whose output ended without an answer. What ended it is not known: a login may run
// something else in place of our command, and a command may be killed.
func noCommand(s *session) error {
	what := "the channel was closed before our command printed anything"
	if path := s.started(); path != "" {
		what = "the channel was closed without an answer, after our shell had gone on to start " + path
	}
	return &refusal{word: diag.SSHExec, phase: phaseExec, detail: withWords(what, s.words())}
}

func withWords(what, words string) string {
	if words == "" {
		return what
	}
	return what + ": " + words
}

// replace pushes our own helper and starts it. If that fails, it uses an installed gpuaas-agent of another build, if
// that answers.
func (l *link) replace(ctx context.Context, client *ssh.Client, sudo bool, mine []Program, old *trial) (*trial, error) {
	pushErr := l.push(ctx, client, sudo, mine, old)
	if pushErr == nil {
		t, err := l.retry(ctx, client, sudo, mine, false)
		if err != nil {
			return nil, err
		}
		if t.hello != nil {
			old.s.end()
			return t, nil
		}
		t.s.end()
		pushErr = fmt.Errorf("the pushed helper does not run: %s", t.why)
	}
	if ctx.Err() != nil {
		return nil, stopped(ctx, phaseExec, l.noAnswer())
	}
	if old.hello != nil {
		return old, nil
	}
	old.s.end()
	if len(mine) > 0 && old.missing {
		t, err := l.retry(ctx, client, sudo, nil, true)
		if err != nil {
			return nil, err
		}
		if t.hello != nil {
			return t, nil
		}
		t.s.end()
	}
	word := diag.SSHExec
	if lack := (*noHelper)(nil); old.missing && errors.As(pushErr, &lack) {
		word = diag.SSHSetup
	}
	return nil, &refusal{word: word, phase: phaseExec, detail: old.why + "; " + pushErr.Error()}
}

// retry is try with a new timeout.
func (l *link) retry(ctx context.Context, client *ssh.Client, sudo bool, mine []Program,
	anyBuild bool) (*trial, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.execWait())
	defer cancel()
	return l.try(ctx, client, sudo, mine, anyBuild)
}

// wantSudo decides by the profile, else by the login's name.
func (l *link) wantSudo() bool {
	if l.cfg.SSH.Sudo != nil {
		return *l.cfg.SSH.Sudo
	}
	return l.target.user != "root" && len(l.cfg.Command) == 0 // a command may become root by itself
}

// execError is the error of a channel that could not be opened on an established connection.
func (l *link) execError(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return stopped(ctx, phaseExec, l.noAnswer())
	}
	word := diag.SSHTransport
	if errors.As(err, new(*ssh.OpenChannelError)) {
		word = diag.SSHExec
	}
	return &refusal{word: word, phase: phaseExec, detail: doing + ": " + foreign(reason(err))}
}
