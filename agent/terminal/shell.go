package terminal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/ptmx"
	"github.com/gpuaas/gpuaasctl/wire"
)

const (
	// firstWordsWithin is how long a shell may take to its first output, its prompt: one without output shows its
	// user nothing, and is not ready. It is less than the gateway's usual patience, so that the user gets the reason.
	firstWordsWithin = 10 * time.Second
	// settleFor is how long a shell with some output is watched: nologin and broken stubs print, then end.
	settleFor = 10 * time.Millisecond
	// hangup is what a shell has to end by itself once its terminal is gone.
	hangup = 300 * time.Millisecond
	// farewell is what a shell that has closed its terminal has to be seen to exit: on a busy machine that is more than
	// an exit takes.
	farewell = 5 * time.Second
	// ptyHolds is more than the kernel keeps of what was printed on a PTY and not read.
	ptyHolds = 128 << 10
)

// shell is a user's login shell on a PTY of its own.
type shell struct {
	Confinement

	master *os.File
	cmd    *exec.Cmd     // the shell itself, or what waits for its unit
	exited chan struct{} // closed once it was reaped, and its unit is gone
	code   int           // valid after exited; 128 + signal where a signal ended it, 255 where it has a unit
	words  string        // valid after exited: systemd's error about the unit
	settle time.Duration // how long one with some output is watched
	hold   func()        // closes the agent's end of the user's side, which keeps the PTY open until the shell has it
}

// startShell starts u's shell as a login shell: own session, controlling terminal, the user's ids and groups, a
// minimal environment, in the user's home. Where systemd runs the host, it has a unit of its own.
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
		cmd, err = start("/") // as login does without a home; if the shell is at fault, it fails again
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
	_ = s.cmd.Wait() // its code means the same
	s.code = s.cmd.ProcessState.ExitCode()
	if ws, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		s.code = 128 + int(ws.Signal())
	}
	if said, ok := s.cmd.Stderr.(*words); ok {
		s.words = strings.TrimSpace(said.String())
	}
	s.hold()
	close(s.exited)
}

// firstWords waits until the shell prints something and is known to live, and returns the output so far. Its error is
// an *Error when the shell ended or stayed silent instead, or ctx was done first: a silent shell holds up no decision.
func (s *shell) firstWords(ctx context.Context, within time.Duration) ([]byte, error) {
	buf := make([]byte, 4096)
	if err := s.master.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("watch the pty: %w", err)}
	}
	stop := context.AfterFunc(ctx, func() { _ = s.master.SetReadDeadline(time.Now()) })
	n, err := s.master.Read(buf)
	s.hold() // the shell has it by now, or never will
	if !stop() {
		return nil, overruled(ctx, fmt.Errorf("wait for the shell: %w", context.Cause(ctx)))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &Error{Code: wire.CodePTYSilent, Err: fmt.Errorf("the shell said nothing for %s", within)}
	}
	wait := s.settle
	if err != nil {
		wait = farewell // the terminal is gone; the shell itself follows
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.exited:
		return nil, s.endedAtOnce(s.said(buf[:n]))
	case <-ctx.Done():
		return nil, overruled(ctx, fmt.Errorf("wait for the shell: %w", context.Cause(ctx)))
	case <-timer.C:
	}
	return buf[:n], s.master.SetReadDeadline(time.Time{})
}

// endedAtOnce names a shell that ended without being one: systemd refused its unit, it could not be started, or it
// ended.
func (s *shell) endedAtOnce(said string) *Error {
	switch {
	case s.Unit != "" && s.words != "":
		return &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("start a unit for the session: %s", s.words)}
	case s.Unit != "" && s.code == ExitNoShell:
		return &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("the shell could not be started%s", said)}
	}
	return &Error{Code: wire.CodePTYExited, Err: fmt.Errorf("the shell ended at once with code %d%s", s.code, said)}
}

// end hangs up and waits until the shell is gone: first a request, then not. With its unit every process of the session
// ends, detached or not. Without one, jobs that the user detached live on, as they do after an SSH session.
func (s *shell) end() {
	if s.Unit != "" {
		s.endUnit()
		return
	}
	foreground := s.foreground()
	s.signal(s.cmd.Process.Pid, unix.SIGHUP)
	_ = s.master.Close() // the kernel hangs up the terminal's session, too
	select {
	case <-s.exited:
	case <-time.After(hangup):
		s.signal(s.cmd.Process.Pid, unix.SIGKILL)
		<-s.exited
	}
	if foreground > 1 && foreground != s.cmd.Process.Pid {
		s.signal(foreground, unix.SIGKILL) // what ran in the foreground and ignored the hang-up
	}
}

// endUnit hangs up, and kills what did not end by it. What takes no SIGKILL is not waited for longer than killTimeout.
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

// waiting reads what lies in the terminal, and waits for none. It is for a terminal whose deadline is over, which ends
// that deadline.
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

// foreground is the process group that the terminal's keys go to, 0 when unknown.
func (s *shell) foreground() int {
	pgrp := 0
	raw, err := s.master.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { pgrp, _ = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	return pgrp
}

// signal sends sig to a process group; a group that is gone is what was wanted.
func (s *shell) signal(pgrp int, sig unix.Signal) {
	select {
	case <-s.exited:
		if pgrp == s.cmd.Process.Pid {
			return // reaped: the number may be another process's by now
		}
	default:
	}
	_ = unix.Kill(-pgrp, sig)
}
