//go:build linux

package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// commandBudget bounds one helper command (ip, mount, systemctl), which either answers in milliseconds or hangs.
const commandBudget = 20 * time.Second

// outputGrace is how long to wait for the rest of a command's output after it exited, on a busy machine.
const outputGrace = 10 * time.Second

// command runs argv on the host and returns its stdout. The error holds the command line and its output.
func command(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandBudget)
	defer cancel()
	return commandAny(ctx, argv...)
}

// commandAny is command without a time limit except ctx's.
func commandAny(ctx context.Context, argv ...string) (string, error) {
	return output(exec.CommandContext(ctx, argv[0], argv[1:]...), strings.Join(argv, " "))
}

// output runs cmd and returns its stdout. The error holds its name and its stderr, else its stdout.
func output(cmd *exec.Cmd, name string) (string, error) {
	cmd.WaitDelay = outputGrace
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := cmp.Or(strings.TrimSpace(stderr.String()), strings.TrimSpace(stdout.String()))
		return stdout.String(), fmt.Errorf("%s: %w: %s", name, err, tail(said, 600))
	}
	return stdout.String(), nil
}

// exitCode is the status of a command that ran to its end.
func exitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// tail returns the last n bytes of s.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "..." + s[len(s)-n:]
}

// gone reports whether err means that the object does not exist, or no longer exists.
func gone(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ESRCH)
}
