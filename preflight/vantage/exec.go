package vantage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

const (
	// restGrace is how long to wait for output after a program has ended: a busy server may send it after the end note,
	// and a child of the program may hold the stream open for ever.
	restGrace = 3 * time.Second
	// doubtWait is how long a server may take to answer a request that needs no command. After an abandoned call, a
	// server that takes longer is considered frozen or disconnected.
	doubtWait = 3 * time.Second
	// keptOutput is the limit of a program's kept output, in bytes, for a script without its own.
	keptOutput = 64 << 10
	// maxNotes and maxNoteBytes bound the notes of one script; our longest has some forty.
	maxNotes, maxNoteBytes = 256, 64 << 10
)

// ErrUnsent is wrapped by errors of a script that was not sent, and so did nothing.
var ErrUnsent = errors.New("nothing was sent")

// unsent is an error that is ErrUnsent, with its own text.
type unsent struct{ error }

func (u unsent) Unwrap() error        { return u.error }
func (u unsent) Is(target error) bool { return target == ErrUnsent }

// Answer is the result of a script that runs a program.
type Answer struct {
	Notes  []string // the script's own lines, without the sentinel
	Output []byte   // the first Script.Keep bytes of the program's stdout
	Words  string   // other text on stderr, for a detail
}

// Note returns the rest of the first note that begins with word.
func (a Answer) Note(word string) (rest string, found bool) {
	for _, n := range a.Notes {
		if first, rest, _ := strings.Cut(n, " "); first == word {
			return rest, true
		}
	}
	return "", false
}

// Exec runs a script that runs a program, with sh, as root if this login may become root. Such a script writes its
// notes on stderr. It prints the line "begin" (which is a note as well) on stdout before it starts the program, and the
// parseLines "exit code=N" after the program has ended. An answer may have other notes without these two.
//
// If ctx or the script's own time ends, the call is abandoned and its channel closed. Other calls over the same
// connection go on, unless the server no longer answers: then the connection ends for all of them. An error that is
// ErrUnsent means that the script cannot have run.
func (n *Node) Exec(ctx context.Context, s Script) (Answer, error) {
	l, err := n.loggedIn(ctx)
	if err != nil {
		return Answer{}, unsent{err}
	}
	client, sudo := l.shell()
	ctx, cancel := context.WithTimeout(ctx, s.within())
	defer cancel()
	c := &call{out: bounded.Head{Most: max(s.Keep, 0)}, words: bounded.Head{Most: greetingKept}, over: make(chan struct{})}
	if s.Keep == 0 {
		c.out.Most = keptOutput
	}
	done := make(chan error, 1)
	l.wg.Go(func() { done <- c.run(ctx, l, client, command(s.Text, sudo, s.Args...), s.Input) })
	select {
	case err := <-done:
		if ctx.Err() == nil || errors.Is(err, ErrUnsent) {
			return c.answer(err, sudo)
		}
	case <-ctx.Done():
	}
	l.wg.Go(l.doubt)
	return Answer{}, stopped(ctx, phaseExec, fmt.Sprintf("the command on %s gave no answer in time", l.cfg.Host))
}

// Lost reports that this vantage is unusable: the login failed, the connection ended, or it was closed.
func (n *Node) Lost() bool {
	n.mu.Lock()
	l, closed := n.link, n.closed
	n.mu.Unlock()
	switch {
	case closed:
		return true
	case l == nil:
		return false
	}
	select {
	case <-l.ended:
		return true
	default:
		return l.refusal() != nil
	}
}

// doubt ends the connection if the server no longer answers.
func (l *link) doubt() {
	client, _ := l.shell()
	timer := time.AfterFunc(doubtWait, l.kill)
	defer timer.Stop()
	_, _, _ = client.SendRequest("keepalive@openssh.com", true, nil)
}

// call is one execution of a script.
type call struct {
	over chan struct{} // closed when the script has reported its program's end

	mu    sync.Mutex // guards the fields below
	out   bounded.Head
	words bounded.Head
	notes []string
	noted int    // bytes of notes
	line  []byte // incomplete line of stderr
}

// run sends the script and collects its output.
func (c *call) run(ctx context.Context, l *link, client *ssh.Client, cmd string, input []byte) error {
	session, err := client.NewSession()
	if err != nil {
		if ctx.Err() == nil && !errors.As(err, new(*ssh.OpenChannelError)) {
			l.kill() // the connection ended; tell the next caller
			<-l.ended
		}
		return unsent{l.execError(ctx, "opening a channel", err)}
	}
	defer session.Close()
	unhook := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer unhook()
	session.Stdin, session.Stdout, session.Stderr = bytes.NewReader(input), writer(c.print), writer(c.parseLines)
	if err := session.Start(cmd); err != nil {
		return l.execError(ctx, "asking for a command", err)
	}
	ended := make(chan struct{})
	var beside sync.WaitGroup
	defer beside.Wait()
	defer close(ended)
	beside.Go(func() {
		select {
		case <-ended:
			return
		case <-c.over:
		}
		select {
		case <-ended:
		case <-time.After(restGrace):
			_ = session.Close()
		}
	})
	return session.Wait()
}

// answer returns the script's notes, or why there are none.
func (c *call) answer(err error, sudo bool) (Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := Answer{Notes: c.notes, Words: foreign(strings.TrimSpace(c.words.String()))}
	_, out, begun := bytes.Cut(c.out.Bytes(), []byte(sentinel+" begin\n"))
	if begun {
		a.Output, a.Notes = out, append([]string{"begin"}, a.Notes...)
	}
	switch {
	case errors.Is(err, ErrUnsent):
		return Answer{}, err
	case c.flooded():
		return Answer{}, fmt.Errorf("the script's notes are more than %d, or longer than %d bytes together: none is believed",
			maxNotes, maxNoteBytes)
	case len(a.Notes) > 0:
		return a, nil
	case sudo && strings.Contains(a.Words, "sudo:"):
		return Answer{}, fmt.Errorf("the login is not root, and may not become root without a password: %s", a.Words)
	case a.Words != "":
		return Answer{}, fmt.Errorf("the script printed nothing: %s", a.Words)
	case err != nil:
		return Answer{}, fmt.Errorf("the script printed nothing: %w", err)
	}
	return Answer{}, errors.New("the script printed nothing")
}

func (c *call) print(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.Write(p)
}

// parseLines extracts the script's lines from stderr.
func (c *call) parseLines(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line = append(c.line, p...)
	for {
		line, rest, whole := bytes.Cut(c.line, []byte("\n"))
		if !whole {
			break
		}
		c.line = rest
		note, ours := strings.CutPrefix(strings.TrimRight(string(line), "\r"), sentinel+" ")
		if !ours {
			_, _ = c.words.Write(append(line, '\n'))
			continue
		}
		c.noted += len(note)
		if c.flooded() {
			c.notes = c.notes[:0]
		} else {
			c.notes = append(c.notes, note)
		}
		if c.flooded() || strings.HasPrefix(note, "exit ") {
			select {
			case <-c.over:
			default:
				close(c.over)
			}
		}
	}
	if len(c.line) > greetingKept { // from a program that never ends its line: no note is as long
		c.line = c.line[:copy(c.line, c.line[len(c.line)-greetingKept:])]
	}
}

// flooded reports that there are more notes than any script of ours writes; the call is then abandoned.
func (c *call) flooded() bool {
	if len(c.notes) >= maxNotes {
		c.noted = maxNoteBytes + 1 // for good
	}
	return c.noted > maxNoteBytes
}

// writer is a function as an io.Writer that never fails.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

var _ io.Writer = writer(nil)
