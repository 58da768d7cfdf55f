package vantage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

const (
	// runTimeout bounds one script: some files, a lock that may be held for seconds, a disk that syncs slowly.
	runTimeout = 20 * time.Second
	// runOutput bounds the kept output of a script.
	runOutput = 4 << 20
)

// Script is one of the tool's own shell scripts. Unlike probes, scripts may change a node. Text is a constant; only the
// arguments, which are quoted, and the input, which is not on a command line, vary. Results are lines that begin with
// the sentinel.
type Script struct {
	Text   string
	Args   []string
	Input  []byte
	Within time.Duration // counted from the login; default 20 s
	Keep   int           // bytes to keep of a program's output, see Exec
}

func (s *Script) within() time.Duration { return cmp.Or(s.Within, runTimeout) }

// Run runs a script on the node with sh, as root if this login may become root, and returns its result lines without
// the sentinel. It ignores other output on the same stream (a greeting). Like a probe it shares the vantage's one
// connection, which ends if ctx ends before the script.
func (n *Node) Run(ctx context.Context, s Script) ([]string, error) {
	l, err := n.loggedIn(ctx)
	if err != nil {
		return nil, err
	}
	client, sudo := l.shell()
	ctx, cancel := context.WithTimeout(ctx, s.within())
	defer cancel()
	return l.run(ctx, client, command(s.Text, sudo, s.Args...), s.Input)
}

// loggedIn waits for the login.
func (n *Node) loggedIn(ctx context.Context) (*link, error) {
	l := n.connect()
	if l == nil {
		return nil, errors.New("the vantage is closed")
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, l.pending(ctx)
	}
	if r := l.refusal(); r != nil {
		return nil, r
	}
	return l, nil
}

// shell returns the connection for scripts, and whether they need sudo to be root.
func (l *link) shell() (client *ssh.Client, sudo bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn, l.wantSudo() && (l.cfg.Bare || l.hello.UID == 0)
}

func (l *link) run(ctx context.Context, client *ssh.Client, cmd string, input []byte) ([]string, error) {
	unhook := context.AfterFunc(ctx, l.kill) // a channel to a frozen node cannot be abandoned in any other way
	defer unhook()
	session, err := client.NewSession()
	if err != nil {
		return nil, l.execError(ctx, "opening a channel", err)
	}
	defer session.Close()
	out, words := &bounded.Head{Most: runOutput}, &bounded.Head{Most: greetingKept}
	session.Stdin, session.Stdout, session.Stderr = bytes.NewReader(input), out, words
	err = session.Run(cmd)
	if ctx.Err() != nil {
		return nil, stopped(ctx, phaseExec, l.noAnswer())
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		if rest, ours := strings.CutPrefix(strings.TrimRight(line, "\r\n"), sentinel+" "); ours {
			lines = append(lines, rest)
		}
	}
	switch {
	case len(lines) > 0:
		return lines, nil
	case len(words.Bytes()) > 0:
		return nil, fmt.Errorf("the script printed nothing: %s", foreign(words.String()))
	case err != nil:
		return nil, fmt.Errorf("the script printed nothing: %w", err)
	}
	return nil, errors.New("the script printed nothing")
}

// Quote joins argv into one command line for a login shell, the only form that SSH's exec request has. Every word is
// quoted so that sh, bash, zsh and fish parse the same words. Quotes and backslashes get double quotes of their own,
// because fish, unlike the others, interprets a backslash in single quotes. An argument cannot contain a NUL byte; it
// is dropped.
func Quote(argv []string) string {
	var b strings.Builder
	for i, word := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		quoteWord(&b, word)
	}
	return b.String()
}

func quoteWord(b *strings.Builder, word string) {
	b.WriteByte('\'')
	for i := 0; i < len(word); i++ {
		switch c := word[i]; c {
		case 0:
		case '\'':
			b.WriteString(`'"'"'`)
		case '\\':
			b.WriteString(`'"\\"'`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
}
