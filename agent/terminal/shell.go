package terminal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/ptmx"
	"github.com/gpuaas/gpuaasctl/wire"
)

const (
	// firstWordsWithin is how long a shell may take to its first output, its prompt: one that says nothing shows its
	// user nothing, and is not ready. It is less than the gateway's usual patience, so that the user hears why.
	firstWordsWithin = 10 * time.Second
	// settle is how long a shell that did say something is watched: nologin and broken stubs speak, then end.
	settle = 10 * time.Millisecond
	// hangup is what a shell has to end by itself once its terminal is gone.
	hangup = 300 * time.Millisecond
)

// shell is a user's login shell on a PTY of its own.
type shell struct {
	master *os.File
	cmd    *exec.Cmd
	exited chan struct{} // closed once it was reaped
	code   int           // valid after exited; 128 + signal where a signal ended it
}

// startShell starts u's shell as a login shell: own session, controlling terminal, the user's ids and groups, a
// minimal environment, in the user's home.
func startShell(u user, cols, rows uint16) (*shell, error) {
	master, tty, err := ptmx.Open()
	if err != nil {
		return nil, err
	}
	defer tty.Close()
	cmd, err := startOn(tty, u, cols, rows)
	if err != nil {
		return nil, errors.Join(err, master.Close())
	}
	s := &shell{master: master, cmd: cmd, exited: make(chan struct{})}
	go s.reap()
	return s, nil
}

func startOn(tty *os.File, u user, cols, rows uint16) (*exec.Cmd, error) {
	if err := ptmx.Resize(tty, cols, rows); err != nil {
		return nil, fmt.Errorf("size the pty: %w", err)
	}
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: true} // Ctty is the child's descriptor 0
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid, Groups: u.groups}
		if err := tty.Chown(int(u.uid), -1); err != nil {
			return nil, fmt.Errorf("give the pty to user %d: %w", u.uid, err)
		}
	} else if int(u.uid) != os.Geteuid() {
		return nil, fmt.Errorf("become user %d: %w", u.uid, syscall.EPERM)
	}
	start := func(dir string) (*exec.Cmd, error) {
		cmd := &exec.Cmd{
			Path: u.shell, Args: []string{"-" + filepath.Base(u.shell)}, Dir: dir, Env: environment(u),
			Stdin: tty, Stdout: tty, Stderr: tty, SysProcAttr: attr,
		}
		return cmd, cmd.Start()
	}
	cmd, err := start(u.home)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) {
		cmd, err = start("/") // as login does where there is no home; were it the shell, it fails again
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", u.shell, err)
	}
	return cmd, nil
}

func environment(u user) []string {
	return []string{
		"HOME=" + u.home, "USER=" + u.name, "LOGNAME=" + u.name, "SHELL=" + u.shell, "TERM=xterm-256color",
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
	}
}

func (s *shell) reap() {
	_ = s.cmd.Wait() // its code says the same
	s.code = s.cmd.ProcessState.ExitCode()
	if ws, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		s.code = 128 + int(ws.Signal())
	}
	close(s.exited)
}

// firstWords waits until the shell says something and is known to live, and returns what it said so far. Its error is
// an *Error when the shell ended or stayed silent instead.
func (s *shell) firstWords(within time.Duration) ([]byte, error) {
	buf := make([]byte, 4096)
	if err := s.master.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, &Error{Code: wire.CodePTYFailed, Err: fmt.Errorf("watch the pty: %w", err)}
	}
	n, err := s.master.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &Error{Code: wire.CodePTYSilent, Err: fmt.Errorf("the shell said nothing for %s", within)}
	}
	wait := settle
	if err != nil {
		wait = hangup // the terminal is gone; the shell itself follows
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.exited:
		return nil, &Error{Code: wire.CodePTYExited, Err: fmt.Errorf("the shell ended at once with code %d%s", s.code, said(buf[:n]))}
	case <-timer.C:
	}
	return buf[:n], s.master.SetReadDeadline(time.Time{})
}

// said quotes what a shell printed before it ended: one short printable line.
func said(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	line := make([]rune, 0, 120)
	for _, r := range string(b) {
		if r == '\n' || r == '\r' {
			if len(line) > 0 {
				break
			}
			continue
		}
		if r >= ' ' && r != 0x7f && r != 0xfffd && len(line) < cap(line) {
			line = append(line, r)
		}
	}
	return ": " + string(line)
}

// end hangs up and waits until the shell is gone: first a request, then not. Jobs that the user detached live on,
// as they do after an SSH session.
func (s *shell) end() {
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
			return // reaped: the number may be somebody else's by now
		}
	default:
	}
	_ = unix.Kill(-pgrp, sig)
}
