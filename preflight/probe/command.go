//go:build linux

package probe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// commandLimit is the own deadline of systemctl, getent and a program's version: each answers in milliseconds
	// when it answers at all.
	commandLimit = 2 * time.Second
	// commandOutput bounds what is kept of a command's output.
	commandOutput = 256 << 10
)

// said is what a command answered.
type said struct {
	out  []byte
	errs string // first line of its standard error
	code int    // exit status; 128+n when signal n ended it
	more bool   // out is only the beginning
}

// command runs argv in / with an environment of its own (LC_ALL=C), and ends its whole process group when its time is up;
// then the error is the context's. An error means that the command gave no exit status.
func command(ctx context.Context, argv ...string) (said, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	return commandFor(ctx, commandOutput, argv...)
}

// commandFor is command with the caller's own deadline, for one whose answer may be long: limit bytes of it are kept.
func commandFor(ctx context.Context, limit int, argv ...string) (said, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + commandPath()}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 200 * time.Millisecond
	out, errs := clipped{limit: limit}, clipped{limit: commandOutput}
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
	s := said{out: out.Bytes(), errs: line, more: out.more}
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		s.code = exit.ExitCode()
		if st, ok := exit.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			s.code = 128 + int(st.Signal())
		}
		return s, nil
	}
	if errors.Is(err, exec.ErrWaitDelay) { // it ended, and left something behind that holds its output
		return s, nil
	}
	return s, err
}

func commandPath() string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin"
	}
	return path + ":/usr/sbin:/usr/bin:/sbin:/bin"
}

// clipped keeps the first limit bytes and swallows the rest.
type clipped struct {
	bytes.Buffer
	limit int
	more  bool // something was swallowed
}

func (b *clipped) Write(p []byte) (int, error) {
	kept := min(len(p), b.limit-b.Len())
	b.Buffer.Write(p[:kept])
	b.more = b.more || kept < len(p)
	return len(p), nil
}
