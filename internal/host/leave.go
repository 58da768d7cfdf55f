package host

import (
	"context"
	"os/exec"
	"syscall"
	"time"
)

// killTime is how long SIGKILL takes to end a process, if it can end it at all.
const killTime = 200 * time.Millisecond

// RunOrLeave is Run for a program that may hang in the kernel, where no signal ends it: such a process is left, and
// left is true. Nothing of the caller's is open in it. It reads c.Most bytes of each output, and c.Stdin is not used.
func (c Command) RunOrLeave(ctx context.Context, argv ...string) (a Answer, left bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // os/exec would wait for a process that nobody can end
	cmd.Env = []string{"LC_ALL=C", "PATH=" + SearchPath()}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := newOutput(c.Most)
	if err != nil {
		return a, false, err
	}
	defer out.close()
	errs, err := newOutput(c.Most)
	if err != nil {
		return a, false, err
	}
	defer errs.close()
	cmd.Stdout, cmd.Stderr = out.to, errs.to
	if err := cmd.Start(); err != nil {
		return a, false, err
	}
	out.read()
	errs.read()
	ended := make(chan struct{})
	go func() { // it ends with the process, or with this one
		_ = cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		select {
		case <-ended:
		case <-time.After(killTime):
			left = true
		}
		err = context.Cause(ctx)
	}
	until := time.Now().Add(killTime)
	out.end(until)
	errs.end(until)
	a = Answer{Out: out.Bytes(), Err: errs.Bytes(), Cut: out.Cut()}
	if !left {
		a.Code = cmd.ProcessState.ExitCode()
	}
	return a, left, err
}
