//go:build linux

package lab

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNotRunning is returned for a machine that is off or rebooting.
var ErrNotRunning = errors.New("machine is not running")

// Stdio holds the streams of a command on a machine; a nil field is /dev/null.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// Command prepares argv to run as root on machine, from the host and without SSH, so that it works without sshd.
func (l *Lab) Command(ctx context.Context, machine string, argv ...string) (*exec.Cmd, error) {
	pid, err := l.Leader(machine)
	if err != nil {
		return nil, err
	}
	full := append([]string{"--bounding-set", hostOnly, "--", "nsenter", "--target", strconv.Itoa(pid), "--mount", "--uts",
		"--ipc", "--net", "--pid", "--time", "--root", "--wd", "--", "env", "-i", "PATH=" + defaultPath, "HOME=/root",
		"USER=root", "LANG=C.UTF-8", "TERM=" + cmp.Or(os.Getenv("TERM"), "dumb")}, argv...)
	return exec.CommandContext(ctx, "setpriv", full...), nil
}

// hostOnly lists what no machine may change, in whatever way: the clock and the kernel have no namespace, so they
// are the host's.
const hostOnly = "-sys_time,-sys_module,-sys_rawio,-syslog,-wake_alarm"

// Exec runs argv as root on machine and returns its stdout. A status other than 0 is an *exec.ExitError with stderr, or
// else stdout, in the error's text.
func (l *Lab) Exec(ctx context.Context, machine string, argv ...string) (string, error) {
	cmd, err := l.Command(ctx, machine, argv...)
	if err != nil {
		return "", err
	}
	return output(cmd, strings.Join(argv, " ")+" on "+machine)
}

// ExecStdio runs argv as root on machine with the given streams and returns its exit status.
func (l *Lab) ExecStdio(ctx context.Context, stdio Stdio, machine string, argv ...string) (int, error) {
	cmd, err := l.Command(ctx, machine, argv...)
	if err != nil {
		return 0, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdio.In, stdio.Out, stdio.Err
	return exitCode(cmd.Run())
}

// openRoot opens a running machine's root folder; paths cannot escape from it.
func (l *Lab) openRoot(machine string) (*os.Root, error) {
	pid, err := l.Leader(machine)
	if err != nil {
		return nil, err
	}
	return os.OpenRoot("/proc/" + strconv.Itoa(pid) + "/root")
}

// inRoot makes an absolute path relative, for os.Root.
func inRoot(path string) string { return strings.TrimPrefix(filepath.Clean(path), "/") }
