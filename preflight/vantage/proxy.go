package vantage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
)

const (
	// askTimeout bounds the commands of Match exec and KnownHostsCommand.
	askTimeout = 3 * time.Second
	// askOutput bounds the output of KnownHostsCommand, in bytes.
	askOutput = 1 << 20
	// proxyPatience is how long a proxy's program may take to end by itself after it is asked to.
	proxyPatience = 300 * time.Millisecond
	// proxyWords bounds what is kept of a proxy's messages, in bytes.
	proxyWords = 1024
)

// proxy is the program of ProxyCommand, whose stdin and stdout are the connection.
type proxy struct {
	command string // for the user's shell
	shell   string
	at      string // file:line
}

// proxyOf returns the program of ProxyCommand with its tokens; nil without one. The user's own ssh_config asks for it;
// one that another user could have written is refused.
func proxyOf(c *openssh.Config, shell string) (*proxy, error) {
	v := c.Get("proxycommand")
	if v == nil || strings.EqualFold(v.First(), "none") {
		return nil, nil
	}
	if c.Yes("proxyusefdpass", false) {
		return nil, fmt.Errorf("not used here: %s: the program hands over a connection instead of carrying it",
			c.Get("proxyusefdpass"))
	}
	if err := checkOwner(v.File); err != nil {
		return nil, fmt.Errorf("%s: ProxyCommand is not run: %w", v.At(), err)
	}
	command, err := openssh.Expand(v.First(), c.ForProxy(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: ProxyCommand: %w", v.At(), err)
	}
	return &proxy{command: "exec " + command, shell: shell, at: v.At()}, nil
}

// String names the program by its place: its arguments may have secrets.
func (p *proxy) String() string { return "ProxyCommand (" + p.at + ")" }

// runShell returns a function that runs a command of a file of ssh_config (Match exec), and reports whether it
// succeeded.
func runShell(shell string) func(ctx context.Context, file, command string) (bool, error) {
	return func(ctx context.Context, file, command string) (bool, error) {
		if err := checkOwner(file); err != nil {
			return false, fmt.Errorf("the command of exec is not run: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		err := inGroup(exec.CommandContext(ctx, shell, "-c", command)).Run()
		if ctx.Err() != nil {
			return false, fmt.Errorf("the command of exec did not end within %s", askTimeout)
		}
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			return false, err
		}
		return err == nil, nil
	}
}

// inGroup makes a command the leader of a process group, all of which ends with its context.
func inGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = proxyPatience
	return cmd
}

// endGroup ends the process group that cmd leads. It asks first, and leaves nothing that the program started.
func endGroup(cmd *exec.Cmd, ended <-chan struct{}) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	timer := time.NewTimer(proxyPatience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// piped is a connection through a program.
type piped struct {
	out, in *os.File // the program's stdout and stdin
	cmd     *exec.Cmd
	words   *kept
	ended   chan struct{} // closed when the program has ended
	once    sync.Once
}

// kept keeps the beginning of what is written to it, and may be read at any time.
type kept struct {
	mu   sync.Mutex
	head bounded.Head
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.head.Write(p)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.head.String()
}

// start starts the program.
func (p *proxy) start() (*piped, error) {
	return startPiped(exec.Command(p.shell, "-c", p.command))
}

// startPiped starts a command whose stdin and stdout are a connection.
func startPiped(cmd *exec.Cmd) (*piped, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	c := &piped{out: out, in: in, cmd: cmd, words: &kept{head: bounded.Head{Most: proxyWords}},
		ended: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = childIn, childOut, c.words, proxyPatience
	err = cmd.Start()
	_, _ = childIn.Close(), childOut.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go func() {
		defer close(c.ended)
		_ = cmd.Wait()
	}()
	return c, nil
}

func (c *piped) Read(p []byte) (int, error)         { return c.out.Read(p) }
func (c *piped) Write(p []byte) (int, error)        { return c.in.Write(p) }
func (c *piped) LocalAddr() net.Addr                { return noAddress{} }
func (c *piped) RemoteAddr() net.Addr               { return noAddress{} }
func (c *piped) SetReadDeadline(t time.Time) error  { return c.out.SetReadDeadline(t) }
func (c *piped) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }
func (c *piped) SetDeadline(t time.Time) error {
	return errors.Join(c.out.SetReadDeadline(t), c.in.SetWriteDeadline(t))
}

// Close ends the connection and the program with all that it has started.
func (c *piped) Close() error {
	c.once.Do(func() {
		_, _ = c.in.Close(), c.out.Close()
		endGroup(c.cmd, c.ended)
		<-c.ended
	})
	return nil
}

// why describes the end of the program for a login that failed; "" while it runs.
func (c *piped) why() string {
	select {
	case <-c.ended:
	case <-time.After(proxyPatience / 3): // it closes its output a moment before it ends
	}
	words := foreign(strings.TrimSpace(c.words.String()))
	select {
	case <-c.ended:
		return withWords("it ended ("+c.cmd.ProcessState.String()+")", words)
	default:
		return words
	}
}

// noAddress is the address of a connection through a program.
type noAddress struct{}

// Network implements net.Addr.
func (noAddress) Network() string { return "pipe" }
func (noAddress) String() string  { return "127.0.0.1:0" }
