package vantage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"golang.org/x/crypto/ssh"
)

const (
	// greetingKept bounds what is kept of other output: a login's greeting, stderr.
	greetingKept = 1024
	// wordsTimeout bounds the wait for the last output of a command. It arrives when the command ends, unless a child
	// of the command holds its stderr open.
	wordsTimeout = 2 * time.Second
	// lineBuffer has room for most lines of the protocol.
	lineBuffer = 64 << 10
)

// event is a remote command's note, its helper's hello, or the end of its output.
type event struct {
	note  scriptLine
	hello *probe.Hello
	line  []byte // for a hello
	ended bool
}

// session is one exec channel that runs one of our scripts.
type session struct {
	ch     ssh.Channel
	sent   time.Time // when the exec request was sent
	events chan event
	facts  *io.PipeReader // lines after the hello
	over   chan struct{}  // closed when stderr and the server's requests have ended: no more events follow

	mu       sync.Mutex // guards the fields below
	greeting []byte     // lines that are not ours
	stderr   []byte
	status   string     // from exit-status or exit-signal
	last     scriptLine // the latest note
}

// exec runs one command on a new channel. ctx bounds only the start, and if it ends, so does the whole connection: a
// channel to a frozen node cannot be abandoned in any other way.
func (l *link) exec(ctx context.Context, client *ssh.Client, cmd string) (*session, error) {
	unhook := context.AfterFunc(ctx, l.kill)
	defer unhook()
	ch, reqs, err := client.OpenChannel("session", nil)
	if err != nil {
		return nil, l.execError(ctx, "opening a channel", err)
	}
	s := &session{ch: ch, sent: time.Now(), events: make(chan event, 8), over: make(chan struct{})}
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{cmd}))
	if err != nil {
		return nil, l.execError(ctx, "asking for a command", err)
	}
	if !ok {
		_ = ch.Close()
		return nil, &refusal{word: "ssh_exec", phase: phaseExec, detail: "the server refuses to run commands for this login"}
	}
	var to *io.PipeWriter
	s.facts, to = io.Pipe()
	l.own(s.facts.Close) // facts may arrive after the link was closed
	l.wg.Go(func() {
		defer close(s.over)
		var beside sync.WaitGroup
		beside.Go(func() { s.collectStatus(reqs) })
		beside.Go(s.collectStderr)
		beside.Wait()
	})
	l.wg.Go(func() { s.listen(to) })
	return s, nil
}

// listen sorts the command's output: our notes and the hello become events, other lines before the hello are kept as
// words, and everything after the hello goes to the probe's client.
func (s *session) listen(to *io.PipeWriter) {
	defer close(s.events)
	r := bufio.NewReaderSize(s.ch, lineBuffer)
	greeted, whole := false, true
	for {
		part, err := r.ReadSlice('\n')
		if len(part) > 0 {
			starts := whole
			whole = part[len(part)-1] == '\n'
			switch n, ours := parseNote(string(part[:min(len(part), 512)])); {
			case starts && ours:
				s.set(func() { s.last = n })
				if !greeted || n.word == "exit" {
					s.notify(event{note: n})
				}
				if n.word == "exit" {
					err = io.EOF // the script may still wait for the end of our input
				}
			case greeted:
				if _, e := to.Write(part); e != nil {
					greeted = false // nobody reads any more: discard the rest
				}
			case starts && s.isHello(part):
				greeted = true
			default:
				s.keep(&s.greeting, part)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			_ = to.CloseWithError(io.EOF)
			s.notify(event{ended: true})
			return
		}
	}
}

func (s *session) isHello(line []byte) bool {
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	var h struct {
		Hello *probe.Hello `json:"hello"`
	}
	if bounded.Unmarshal(line, &h, bounded.Small()) != nil || h.Hello == nil {
		return false
	}
	s.notify(event{hello: h.Hello, line: bytes.Clone(line)})
	return true
}

// notify never blocks: a script has few events, and the receiver may have stopped listening.
func (s *session) notify(e event) {
	select {
	case s.events <- e:
	default:
	}
}

func (s *session) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *session) keep(where *[]byte, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*where = append(*where, p[:min(len(p), greetingKept-len(*where))]...)
}

func (s *session) collectStderr() {
	buf := make([]byte, 4096)
	for {
		n, err := s.ch.Stderr().Read(buf)
		s.keep(&s.stderr, buf[:n])
		if err != nil {
			return
		}
	}
}

func (s *session) collectStatus(reqs <-chan *ssh.Request) {
	for r := range reqs {
		switch r.Type {
		case "exit-status":
			var m struct{ Status uint32 }
			if ssh.Unmarshal(r.Payload, &m) == nil {
				s.set(func() { s.status = fmt.Sprintf("exit status %d", m.Status) })
			}
		case "exit-signal":
			var m struct {
				Signal     string
				CoreDumped bool
				Message    string
				Language   string
			}
			if ssh.Unmarshal(r.Payload, &m) == nil {
				s.set(func() { s.status = "killed by SIG" + m.Signal })
			}
		}
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}

// settle waits for the end of stderr and for the exit status. Both are read concurrently with the output, so they may
// arrive after its end. It closes the command's input, for which a script may wait.
func (s *session) settle(ctx context.Context) {
	_ = s.ch.CloseWrite()
	timer := time.NewTimer(wordsTimeout)
	defer timer.Stop()
	select {
	case <-s.over:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// words returns the remote side's other output, for a detail. After settle it is complete.
func (s *session) words() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []string
	if len(s.stderr) > 0 {
		parts = append(parts, foreign(string(s.stderr)))
	}
	if len(s.greeting) > 0 {
		parts = append(parts, "output: "+foreign(string(s.greeting)))
	}
	switch {
	case s.last.word == "exit" && s.last.code >= 0:
		parts = append(parts, fmt.Sprintf("exit code %d", s.last.code))
	case s.status != "" && s.status != "exit status 0":
		parts = append(parts, s.status)
	}
	return strings.Join(parts, "; ")
}

// sudoRefused reports, after settle, whether sudo prevented the helper from running.
func (s *session) sudoRefused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.stderr, []byte("sudo:"))
}

// started returns the path of the helper that the command has started; "" before that.
func (s *session) started() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.word != "start" {
		return ""
	}
	return s.last.path
}

// next waits for an event, for at most d; 0: until ctx ends.
func (s *session) next(ctx context.Context, d time.Duration) (event, error) {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case e, ok := <-s.events:
		if !ok {
			return event{ended: true}, nil
		}
		return e, nil
	case <-over:
		return event{}, errSilent
	case <-ctx.Done():
		return event{}, ctx.Err()
	}
}

var errSilent = errors.New("no answer")

// end abandons the channel: the helper sees the end of its input and ends. It does not wait.
func (s *session) end() {
	_ = s.facts.Close()
	_ = s.ch.CloseWrite()
	_ = s.ch.Close()
}
