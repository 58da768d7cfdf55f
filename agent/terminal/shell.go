package terminal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/ptmx"
)

const (
	// firstWordsWithin is how long a shell may take until its first output, the prompt: without output its user
	// sees nothing, and the terminal is not ready. It is shorter than the gateway's default timeout, so that the
	// user gets the reason.
	firstWordsWithin = 10 * time.Second
	// settleFor is how long a shell is watched after its first output: nologin and broken stubs print, then exit.
	settleFor = 10 * time.Millisecond
	// hangup is how long a shell may take to exit after its terminal is gone.
	hangup = 300 * time.Millisecond
	// farewell is how long to wait for the exit of a shell that has closed its terminal: on a busy machine an exit
	// may take long.
	farewell = 5 * time.Second
	// signaled is the lowest exit code of a shell that a signal ended.
	signaled = 128
	// ptyHolds is more than the kernel buffers of a PTY's unread output.
	ptyHolds = 128 << 10
)

// shell is a user's login shell on its own PTY.
type shell struct {
	Confinement

	master *os.File
	cmd    *exec.Cmd     // the shell itself, or the command that waits for its unit
	exited chan struct{} // closed once the shell is reaped and its unit is gone
	code   int           // valid after exited; 128 + signal if a signal killed it, 255 if that happened in a unit
	words  string        // valid after exited: systemd's error about the unit
	settle time.Duration // how long it is watched after its first output
	hold   func()        // closes the agent's handle on the user's side, which keeps the PTY open until the shell has it
}

// startShell starts u's login shell: its own session, a controlling terminal, the user's ids and groups, a minimal
// environment, in the user's home. On a host with systemd, it gets its own unit.
func startShell(u user, cols, rows uint16, limits Limits) (*shell, error) {
	master, tty, err := ptmx.Open()
	if err != nil {
		return nil, err
	}
	s := &shell{master: master, exited: make(chan struct{}), settle: settleFor,
		hold: sync.OnceFunc(func() { _ = tty.Close() })}
	if err := ptmx.Resize(tty, cols, rows); err != nil {
		return nil, errors.Join(fmt.Errorf("size the pty: %w", err), tty.Close(), master.Close())
	}
	if s.Unconfined = unconfined(); s.Unconfined != "" {
		s.cmd, err = startOn(tty, u)
		s.hold()
	} else {
		s.cmd, s.Confinement, err = startUnit(tty, u, limits)
	}
	if err != nil {
		s.hold()
		return nil, errors.Join(err, master.Close())
	}
	go s.reap()
	return s, nil
}

// startOn starts u's shell as a child of the agent, in its control group.
func startOn(tty *os.File, u user) (*exec.Cmd, error) {
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: true} // Ctty is the child's descriptor 0
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.groups}
		if err := tty.Chown(int(u.UID), -1); err != nil {
			return nil, fmt.Errorf("give the pty to user %d: %w", u.UID, err)
		}
	} else if int(u.UID) != os.Geteuid() {
		return nil, fmt.Errorf("become user %d: %w", u.UID, syscall.EPERM)
	}
	start := func(dir string) (*exec.Cmd, error) {
		cmd := &exec.Cmd{
			Path: u.Shell, Args: []string{"-" + filepath.Base(u.Shell)}, Dir: dir, Env: environment(u),
			Stdin: tty, Stdout: tty, Stderr: tty, SysProcAttr: attr,
		}
		return cmd, cmd.Start()
	}
	cmd, err := start(u.Home)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) {
		cmd, err = start("/") // as login does if there is no home; if the shell is at fault, it fails again
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", u.Shell, err)
	}
	return cmd, nil
}

func environment(u user) []string {
	return []string{
		"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "SHELL=" + u.Shell, "TERM=xterm-256color",
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
	}
}

func (s *shell) reap() {
	_ = s.cmd.Wait() // its state means the same
	s.code = s.cmd.ProcessState.ExitCode()
	if ws, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		s.code = 128 + int(ws.Signal())
	}
	if said, ok := s.cmd.Stderr.(*words); ok {
		signal := 0
		if s.words, signal = unitEnd(said.String()); signal > 0 {
			s.code = 128 + signal
		}
	}
	s.hold()
	close(s.exited)
}

// firstWords waits until the shell prints something and has not exited shortly after, and returns the output so
// far. Its error is an *Error if the shell exited or printed nothing, or if ctx was done first, so that a silent
// shell does not delay a decision.
func (s *shell) firstWords(ctx context.Context, within time.Duration) ([]byte, error) {
	buf := make([]byte, 4096)
	if err := s.master.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("watch the pty: %w", err)}
	}
	stop := context.AfterFunc(ctx, func() { _ = s.master.SetReadDeadline(time.Now()) })
	n, err := s.master.Read(buf)
	s.hold() // the shell has opened it by now, or never will
	if !stop() {
		return nil, overruled(ctx, fmt.Errorf("wait for the shell: %w", context.Cause(ctx)))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &Error{Code: wire.CodePTYSilent, Err: fmt.Errorf("the shell printed nothing for %s", within)}
	}
	wait := s.settle
	if err != nil {
		wait = farewell // the terminal is closed; the shell should exit soon
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.exited:
		return nil, s.endedEarly(s.lastLines(buf[:n]))
	case <-ctx.Done():
		return nil, overruled(ctx, fmt.Errorf("wait for the shell: %w", context.Cause(ctx)))
	case <-timer.C:
	}
	return buf[:n], s.master.SetReadDeadline(time.Time{})
}

// endedEarly classifies a shell that ended before the terminal was open: systemd refused its unit, it could not be
// started, or it exited or was killed.
func (s *shell) endedEarly(said string) *Error {
	switch {
	case s.Unit != "" && s.words != "":
		return &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("start a unit for the session: %s", s.words)}
	case s.Unit != "" && s.code == ExitNoShell:
		return &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("the shell could not be started%s", said)}
	}
	return &Error{Code: wire.CodePTYExited, Err: fmt.Errorf("the shell ended with code %d%s", s.code, said)}
}

// end hangs up and waits until the shell is gone: it sends SIGHUP first, then SIGKILL. With a unit, every process
// of the session ends, detached or not. Without one, detached jobs survive, as after an SSH session.
func (s *shell) end() {
	if s.Unit != "" {
		s.endUnit()
		return
	}
	foreground := s.foreground()
	s.signal(s.cmd.Process.Pid, unix.SIGHUP)
	_ = s.master.Close() // the kernel hangs up the terminal's session as well
	select {
	case <-s.exited:
	case <-time.After(hangup):
		s.signal(s.cmd.Process.Pid, unix.SIGKILL)
		<-s.exited
	}
	if foreground > 1 && foreground != s.cmd.Process.Pid {
		s.signal(foreground, unix.SIGKILL) // a foreground job that ignored the SIGHUP
	}
}

// endUnit hangs up, and kills processes that survive. It waits no longer than killTimeout for processes that
// survive SIGKILL.
func (s *shell) endUnit() {
	s.hold()
	_ = s.master.Close() // the kernel hangs up the terminal's session
	select {
	case <-s.exited:
		return
	case <-time.After(hangup):
	}
	killUnit(s.Unit)
	select {
	case <-s.exited:
	case <-time.After(killTimeout):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

// waiting reads what is in the terminal's buffer without blocking. It clears the terminal's expired read deadline.
func (s *shell) waiting(buf []byte) (n int) {
	raw, err := s.master.SyscallConn()
	if err != nil || len(buf) == 0 || s.master.SetReadDeadline(time.Time{}) != nil {
		return 0
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), buf)
		return true
	})
	_ = s.master.SetReadDeadline(time.Unix(1, 0))
	if err != nil {
		return 0
	}
	return n
}

// foreground returns the terminal's foreground process group, 0 if unknown.
func (s *shell) foreground() int {
	pgrp := 0
	raw, err := s.master.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { pgrp, _ = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	return pgrp
}

// signal sends sig to a process group; it ignores a group that is gone.
func (s *shell) signal(pgrp int, sig unix.Signal) {
	select {
	case <-s.exited:
		if pgrp == s.cmd.Process.Pid {
			return // reaped: the number may have been reused
		}
	default:
	}
	_ = unix.Kill(-pgrp, sig)
}
