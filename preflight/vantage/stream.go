package vantage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/crypto/ssh"
)

// Command is a program for Stream: the operator's own, not one of the tool's scripts.
type Command struct {
	Argv   []string  // each word arrives unchanged
	Stdin  io.Reader // nil: none
	Out    io.Writer // its stdout and stderr, passed on while it runs
	Errors io.Writer
	Most   int64 // bytes of both together; more ends the program
}

// Exit is how a program ended.
type Exit struct {
	Code   int    // exit status; 0 if a signal ended it
	Signal string // "KILL"; "" if no signal ended it
}

// ErrTooMuch ends a program that prints more than Command.Most.
var ErrTooMuch = errors.New("the program prints more than is taken")

// Stream runs a program on the node, as root if this login may become root, and passes on its output. An error means
// that the program's exit is unknown: it was not started, the connection ended, or ctx did. In that case the program
// gets a signal, and its channel is closed.
func (n *Node) Stream(ctx context.Context, p Command) (Exit, error) {
	l, err := n.loggedIn(ctx)
	if err != nil {
		return Exit{}, err
	}
	client, sudo := l.shell()
	unhook := context.AfterFunc(ctx, l.kill) // also where no channel comes
	defer unhook()
	session, err := client.NewSession()
	if err != nil {
		return Exit{}, l.execError(ctx, "opening a channel", err)
	}
	defer session.Close()
	end := func() { // signal first: without a terminal, a program does not notice that its channel was closed
		_ = session.Signal(ssh.SIGTERM)
		_ = session.Close()
	}
	asked := context.AfterFunc(ctx, end)
	defer asked()
	budget := &budget{left: p.Most, spent: end}
	session.Stdout, session.Stderr = budget.of(p.Out), budget.of(p.Errors)
	if p.Stdin != nil { // not Session.Stdin: Wait would wait for a reader that never ends
		in, err := session.StdinPipe()
		if err != nil {
			return Exit{}, l.execError(ctx, "asking for a command", err)
		}
		go func() { // not waited for: nothing ends a read of the caller's stdin
			_, _ = io.Copy(in, p.Stdin)
			_ = in.Close()
		}()
	}
	argv := p.Argv
	if sudo {
		argv = append([]string{"sudo", "-n", "--"}, argv...)
	}
	err = session.Run(Quote(argv))
	var ended *ssh.ExitError
	switch {
	case budget.over():
		return Exit{}, ErrTooMuch
	case ctx.Err() != nil:
		return Exit{}, context.Cause(ctx)
	case errors.As(err, &ended):
		return Exit{ended.ExitStatus(), ended.Signal()}, nil
	case err != nil:
		return Exit{}, fmt.Errorf("the connection to %s ended before the command did: %w", l.cfg.Host, err)
	}
	return Exit{}, nil
}

// budget is the number of bytes that two streams may write together.
type budget struct {
	spent func() // called when it is

	mu   sync.Mutex // guards left, and the writers
	left int64
}

func (b *budget) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left < 0
}

// of limits w to the budget.
func (b *budget) of(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.left < 0 {
			return 0, os.ErrClosed
		}
		took := p[:min(int64(len(p)), b.left)]
		b.left -= int64(len(p))
		if b.left < 0 {
			go b.spent()
		}
		if len(took) == 0 {
			return 0, nil
		}
		return w.Write(took)
	})
}

// writerFunc is a function as an io.Writer.
type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }
