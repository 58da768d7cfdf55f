//go:build linux

package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/ptmx"
)

const (
	// ptyOutput bounds what of a shell's output is searched for the nonce.
	ptyOutput = 64 << 10
	// ptyRepeat is when the line is typed again: a start-up script may have eaten the first.
	ptyRepeat = 1500 * time.Millisecond
)

// pty starts User's login shell on a new PTY, as that user, and has it compute a product: an echo is not a shell.
// Words: user_missing, shell_missing, not_permitted (we are neither root nor that user), pty_failed (no PTY, or the
// shell ended), pty_silent (no answer in time).
func (p *Prober) pty(ctx context.Context, req diag.Request, f *diag.Fact) {
	name := req.User
	if name == "" {
		name = req.Target
	}
	pw, ok := lookUser(ctx, name, f)
	if !ok {
		return
	}
	f.PTY = &diag.PTYFacts{Shell: pw.shell}
	began := time.Now()
	defer func() { f.PTY.DurationMS = diag.Measured(time.Since(began)) }()
	cmd, err := loginShell(ctx, pw)
	if err != nil {
		fail(f, "pty", diag.NotPermitted, err)
		return
	}
	master, err := startOnPTY(cmd)
	if err != nil {
		word := diag.PTYFailed
		if errors.Is(err, fs.ErrPermission) {
			word = diag.NotPermitted
		}
		fail(f, "pty", word, err)
		return
	}
	converse(ctx, f, master, began)
	endSession(cmd, master)
}

// loginShell is the command, with the user's groups and an environment of its own.
func loginShell(ctx context.Context, pw passwd) (*exec.Cmd, error) {
	cmd := &exec.Cmd{Path: pw.shell, Args: []string{"-" + filepath.Base(pw.shell)}, Dir: "/"}
	if st, err := os.Stat(pw.home); err == nil && st.IsDir() {
		cmd.Dir = pw.home
	}
	cmd.Env = []string{"HOME=" + pw.home, "SHELL=" + pw.shell, "USER=" + pw.name, "LOGNAME=" + pw.name,
		"TERM=xterm-256color", "PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	switch os.Geteuid() {
	case 0:
		groups, err := groupsOf(ctx, pw.name)
		if err != nil {
			return nil, err
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: pw.uid, Gid: pw.gid, Groups: groups}
	case int(pw.uid):
	default:
		return nil, fmt.Errorf("a shell as %s: %w", pw.name, syscall.EPERM)
	}
	return cmd, nil
}

// groupsOf lists the user's group ids.
func groupsOf(ctx context.Context, name string) ([]uint32, error) {
	s, err := command(ctx, "id", "-G", "--", name)
	if err != nil || s.code != 0 {
		return nil, fmt.Errorf("the groups of %s: %w", name, errors.Join(err, errors.New(s.errs)))
	}
	var groups []uint32
	for field := range strings.FieldsSeq(string(s.out)) {
		g, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the groups of %s: %w", name, err)
		}
		groups = append(groups, uint32(g))
	}
	return groups, nil
}

// startOnPTY starts cmd with a PTY as its controlling terminal. The terminal's own echo is off: it would answer before
// any shell does.
func startOnPTY(cmd *exec.Cmd) (*os.File, error) {
	master, slave, err := ptmx.Open()
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	if err := ptmx.NoEcho(slave); err != nil {
		return nil, errors.Join(fmt.Errorf("turn the terminal's echo off: %w", err), master.Close())
	}
	if cmd.SysProcAttr.Credential != nil {
		// The user must be able to open its own terminal again by name.
		_ = slave.Chown(int(cmd.SysProcAttr.Credential.Uid), -1)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, master.Close())
	}
	return master, nil
}

// converse types the sum and waits for its result.
func converse(ctx context.Context, f *diag.Fact, master *os.File, began time.Time) {
	a, b := 10000+rand.Uint32N(89999), 10000+rand.Uint32N(89999)
	line := fmt.Appendf(nil, "echo $((%d*%d))\n", a, b)
	want := strconv.AppendUint(nil, uint64(a)*uint64(b), 10)
	if deadline, ok := ctx.Deadline(); ok {
		if err := master.SetDeadline(deadline); err != nil {
			fail(f, "pty", diag.PTYFailed, err)
			return
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = master.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_, _ = master.Write(line) // a shell that is gone is seen by the read
	again := time.AfterFunc(ptyRepeat, func() { _, _ = master.Write(line) })
	defer again.Stop()
	var got bytes.Buffer
	buf := make([]byte, 4096)
	for got.Len() < ptyOutput {
		n, err := master.Read(buf)
		if n > 0 && f.PTY.FirstByteMS == 0 {
			f.PTY.FirstByteMS = diag.Measured(time.Since(began))
		}
		got.Write(buf[:n])
		if bytes.Contains(got.Bytes(), want) {
			f.PTY.NonceOK = true
			return
		}
		if err == nil {
			continue
		}
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded): // EIO is how Linux says EOF
			fail(f, "pty", diag.PTYFailed, errors.New("the shell ended before it answered"))
		case errors.Is(ctx.Err(), context.Canceled):
			fail(f, "pty", diag.Cancelled, nil)
		default:
			fail(f, "pty", diag.PTYSilent, fmt.Errorf("the shell did not answer; it printed %d bytes", got.Len()))
		}
		return
	}
	fail(f, "pty", diag.PTYFailed, fmt.Errorf("the shell printed %d bytes and no answer", got.Len()))
}

// endSession ends the shell and everything that it started in its session, and reaps it.
func endSession(cmd *exec.Cmd, master *os.File) {
	sid := cmd.Process.Pid
	_ = syscall.Kill(-sid, syscall.SIGHUP)
	_ = master.Close()
	for range 3 { // a process may have forked behind the first look
		if killSession(sid) == 0 {
			break
		}
	}
	_ = cmd.Wait() // killed: its status says nothing
}

// killSession kills every process of a session and returns how many there were.
func killSession(sid int) (killed int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil && st.session == sid && st.state != "Z" {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			killed++
		}
	}
	return killed
}
