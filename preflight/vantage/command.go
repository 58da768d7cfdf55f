package vantage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// errNoForward is the error of what only an SSH server can do.
var errNoForward = errors.New("a node that is reached by a command has no SSH server")

// commandConn is a node that is reached by a program in place of SSH: kubectl exec, docker exec, nsenter. Every script
// is one more run of the program, with `sh -c SCRIPT` after its arguments, so the node needs no more than a POSIX sh.
// It implements ssh.Conn, so that scripts and helper are carried as over SSH.
type commandConn struct {
	argv []string

	wg    sync.WaitGroup // of the programs
	chans chan ssh.NewChannel
	reqs  chan *ssh.Request

	mu     sync.Mutex // guards the fields below
	closed bool
	open   []*commandChannel
	done   chan struct{}
}

// commandClient returns a connection by a program. It is found in PATH, and refused if another user could have written
// it: it runs with this user's rights.
func commandClient(argv []string) (*ssh.Client, error) {
	path, err := exec.LookPath(argv[0])
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		err = checkOwner(path)
	}
	if err != nil {
		return nil, fmt.Errorf("the node's command: %w", err)
	}
	c := &commandConn{argv: argv, chans: make(chan ssh.NewChannel), reqs: make(chan *ssh.Request),
		done: make(chan struct{})}
	return ssh.NewClient(c, c.chans, c.reqs), nil
}

func (c *commandConn) User() string                         { return "" }
func (c *commandConn) SessionID() []byte                    { return nil }
func (c *commandConn) ClientVersion() []byte                { return nil }
func (c *commandConn) ServerVersion() []byte                { return nil }
func (c *commandConn) RemoteAddr() net.Addr                 { return noAddress{} }
func (c *commandConn) LocalAddr() net.Addr                  { return noAddress{} }
func (c *commandConn) Algorithms() ssh.NegotiatedAlgorithms { return ssh.NegotiatedAlgorithms{} }

// SendRequest answers what asks whether the server is there: each script is a run of its own.
func (c *commandConn) SendRequest(string, bool, []byte) (bool, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, nil, io.EOF
	}
	return false, nil, nil
}

// OpenChannel returns a channel that runs one command.
func (c *commandConn) OpenChannel(name string, _ []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, nil, io.EOF
	case name != "session":
		return nil, nil, errNoForward
	}
	ch := &commandChannel{conn: c, reqs: make(chan *ssh.Request, 1)}
	c.open = append(c.open, ch)
	return ch, ch.reqs, nil
}

// Close ends all programs.
func (c *commandConn) Close() error {
	c.mu.Lock()
	open, was := c.open, c.closed
	c.closed, c.open = true, nil
	c.mu.Unlock()
	if was {
		return nil
	}
	for _, ch := range open {
		_ = ch.Close()
	}
	close(c.chans)
	close(c.reqs)
	close(c.done)
	return nil
}

// Wait waits until the connection is closed and its programs have ended.
func (c *commandConn) Wait() error {
	<-c.done
	c.wg.Wait()
	return nil
}

// commandChannel is one run of the program.
type commandChannel struct {
	conn *commandConn
	reqs chan *ssh.Request

	mu            sync.Mutex // guards the fields below
	cmd           *exec.Cmd  // nil before exec
	in, out, errs *os.File
	ended         chan struct{}
	over          bool
}

// SendRequest starts the command of an exec request.
func (ch *commandChannel) SendRequest(name string, _ bool, payload []byte) (bool, error) {
	var m struct{ Command string }
	if name != "exec" || ssh.Unmarshal(payload, &m) != nil {
		return false, nil
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.over || ch.cmd != nil {
		return false, io.EOF
	}
	argv := slices.Concat(ch.conn.argv, []string{"sh", "-c", m.Command})
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var theirs [3]*os.File
	var err [3]error
	theirs[0], ch.in, err[0] = os.Pipe()
	ch.out, theirs[1], err[1] = os.Pipe()
	ch.errs, theirs[2], err[2] = os.Pipe()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	failed := errors.Join(err[:]...)
	if failed == nil {
		failed = cmd.Start()
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	if failed != nil {
		for _, f := range []*os.File{ch.in, ch.out, ch.errs} {
			_ = f.Close()
		}
		return false, failed
	}
	ch.cmd, ch.ended = cmd, make(chan struct{})
	ch.conn.wg.Go(ch.wait)
	return true, nil
}

// wait sends the exit status when the program has ended.
func (ch *commandChannel) wait() {
	err := ch.cmd.Wait()
	close(ch.ended)
	status := struct{ Status uint32 }{0}
	if code := ch.cmd.ProcessState.ExitCode(); err != nil {
		status.Status = uint32(max(code, 0)) //nolint:gosec // at most 255
		if code < 0 {
			status.Status = 255
		}
	}
	ch.reqs <- &ssh.Request{Type: "exit-status", Payload: ssh.Marshal(status)}
	close(ch.reqs)
}

// file returns one of the program's streams.
func (ch *commandChannel) file(which func() *os.File) (*os.File, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.cmd == nil {
		return nil, io.EOF
	}
	return which(), nil
}

// closedIsEnd turns the error of a closed stream into its end.
func closedIsEnd(n int, err error) (int, error) {
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

func (ch *commandChannel) Read(p []byte) (int, error) {
	f, err := ch.file(func() *os.File { return ch.out })
	if err != nil {
		return 0, err
	}
	return closedIsEnd(f.Read(p))
}

func (ch *commandChannel) Write(p []byte) (int, error) {
	f, err := ch.file(func() *os.File { return ch.in })
	if err != nil {
		return 0, err
	}
	return closedIsEnd(f.Write(p))
}

// Stderr returns the program's messages.
func (ch *commandChannel) Stderr() io.ReadWriter { return commandErrors{ch} }

type commandErrors struct{ ch *commandChannel }

func (e commandErrors) Read(p []byte) (int, error) {
	f, err := e.ch.file(func() *os.File { return e.ch.errs })
	if err != nil {
		return 0, err
	}
	return closedIsEnd(f.Read(p))
}

func (commandErrors) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// CloseWrite ends the program's input.
func (ch *commandChannel) CloseWrite() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.in == nil {
		return nil
	}
	return ch.in.Close()
}

// Close ends the program with all that it has started here.
func (ch *commandChannel) Close() error {
	ch.mu.Lock()
	was := ch.over
	ch.over = true
	cmd := ch.cmd
	ch.mu.Unlock()
	if was {
		return nil
	}
	if cmd == nil {
		close(ch.reqs)
		return nil
	}
	_ = ch.in.Close()
	ch.conn.wg.Go(func() {
		endGroup(cmd, ch.ended)
		_, _ = ch.out.Close(), ch.errs.Close()
	})
	return nil
}

// connectByCommand makes the connection of a node that is reached by a program.
func (l *link) connectByCommand(ctx context.Context) (*ssh.Client, error) {
	l.enter(phaseExec)
	l.set(func() {
		l.target = target{alias: l.cfg.Host}
		l.ssh.Command = filepath.Base(l.cfg.Command[0])
	})
	client, err := commandClient(l.cfg.Command)
	if err != nil {
		return nil, configRefusal(ctx, err)
	}
	l.own(client.Close)
	return client, nil
}
