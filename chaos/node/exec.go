//go:build linux

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// toolPath is where the tools of a machine are, whatever the caller's environment says.
const toolPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxOutput of a tool is kept in memory.
const maxOutput = 4 << 20

// outcome is how a program ended.
type outcome struct {
	out, err string
	code     int
}

// said is the first line of what it complained of.
func (o outcome) said() string {
	text := strings.TrimSpace(o.err)
	if text == "" {
		text = strings.TrimSpace(o.out)
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// limited keeps the first bytes written to it. The buffer is not embedded: its ReadFrom knows no limit.
type limited struct{ kept bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxOutput - l.kept.Len(); room > 0 {
		l.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// toolBudget ends a tool that nothing else ends: whoever asked over SSH may be gone. It is longer than systemd gives a unit
// of ours to stop.
const toolBudget = time.Minute

// tool runs a program of the machine. An exit code is no error; that it could not be run, or not in time, is one.
func tool(ctx context.Context, stdin string, argv ...string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, toolBudget)
	defer cancel()
	cmd := exec.CommandContext(ctx, find(argv[0]), argv[1:]...)
	cmd.Env = []string{"PATH=" + toolPath, "LC_ALL=C", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"}
	cmd.Stdin = strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out, errs limited
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	o := outcome{out: out.kept.String(), err: errs.kept.String(), code: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return o, fmt.Errorf("%s: %w", strings.Join(argv, " "), context.Cause(ctx))
	case errors.As(err, &exit) && exit.Exited():
		return o, nil
	case err != nil:
		return o, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return o, nil
}

// must is tool for a program whose every code but 0 is an error.
func must(ctx context.Context, stdin string, argv ...string) (string, error) {
	o, err := tool(ctx, stdin, argv...)
	if err == nil && o.code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", strings.Join(argv, " "), o.code, o.said())
	}
	return o.out, err
}

// find gives a tool's path; the bare name, which does not exist, if the machine has none.
func find(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	for dir := range strings.SplitSeq(toolPath, ":") {
		if p, err := exec.LookPath(dir + "/" + name); err == nil {
			return p
		}
	}
	return "/nonexistent/" + name
}

// do runs e and checks its exit code.
func do(ctx context.Context, e step.Exec) (string, error) {
	o, err := tool(ctx, e.Stdin, e.Argv...)
	if err == nil && !e.Fine(o.code) {
		err = fmt.Errorf("%s: exit code %d: %s", e.Line(), o.code, o.said())
	}
	return o.out, err
}
