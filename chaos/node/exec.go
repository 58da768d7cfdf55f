//go:build linux

package node

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// toolPath is the search path for tools, whatever the caller's environment contains.
const toolPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// maxOutput bounds, in bytes, how much of a tool's output is kept.
const maxOutput = 4 << 20

// outcome is the result of a program.
type outcome struct {
	out, err string
	code     int
}

// firstLine returns the first line of its standard error.
func (o outcome) firstLine() string {
	text := cmp.Or(strings.TrimSpace(o.err), strings.TrimSpace(o.out))
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// toolBudget bounds a tool that nothing else ends: the caller's SSH connection may be gone. It is longer than the
// stop timeout of our units.
const toolBudget = time.Minute

// tool runs a program of the machine. A non-zero exit code is not an error; a failure to run, or a timeout, is.
func tool(ctx context.Context, stdin string, argv ...string) (outcome, error) {
	c := host.Command{Path: toolPath, Stdin: stdin, Limit: toolBudget, Most: maxOutput}
	a, err := c.Run(ctx, append([]string{find(argv[0])}, argv[1:]...)...)
	if err == nil && a.Signaled {
		err = fmt.Errorf("signal %d ended it", a.Code-128)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return outcome{out: string(a.Out), err: string(a.Err), code: a.Code}, err
}

// must is tool with every exit code except 0 as an error.
func must(ctx context.Context, stdin string, argv ...string) (string, error) {
	o, err := tool(ctx, stdin, argv...)
	if err == nil && o.code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", strings.Join(argv, " "), o.code, o.firstLine())
	}
	return o.out, err
}

// find returns a tool's path; if the machine lacks the tool, it returns the bare name, which does not exist.
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
	if err == nil && !e.Succeeded(o.code) {
		err = fmt.Errorf("%s: exit code %d: %s", e.Line(), o.code, o.firstLine())
	}
	return o.out, err
}

// tryEvery is the pause between two attempts of a check.
const tryEvery = 100 * time.Millisecond

// try repeats a check until it passes; it returns the last error when its time is over.
func try(ctx context.Context, c step.Check) string {
	ctx, cancel := context.WithTimeout(ctx, c.Within.Duration())
	defer cancel()
	why := "not tried"
	for {
		now := once(ctx, c)
		if now == "" {
			return ""
		}
		if ctx.Err() == nil || why == "not tried" {
			why = now // the last attempt timed out, which proves nothing
		}
		if !sleep.For(ctx, tryEvery) {
			return why
		}
	}
}

// once runs the check once.
func once(ctx context.Context, c step.Check) string {
	o, err := runCheck(ctx, c)
	if err != nil {
		return err.Error()
	}
	return c.Against(o.code, o.err+o.out)
}

// runCheck runs a check's program, in a unit's mount namespace if the check names a unit.
func runCheck(ctx context.Context, c step.Check) (o outcome, err error) {
	if c.Unit == "" {
		return tool(ctx, c.Exec.Stdin, c.Exec.Argv...)
	}
	u, err := showUnit(ctx, c.Unit)
	if err != nil || u.MainPID == 0 {
		return o, orText(err, "%s does not run, so it sees nothing", c.Unit)
	}
	inside := func() error {
		// a child starts in the namespace of the thread that forks it
		o, err = tool(ctx, c.Exec.Stdin, c.Exec.WithMainPID(u.MainPID).Argv...)
		return err
	}
	if err := inNamespace(u.MainPID, inside); err != nil {
		return o, err
	}
	return o, nil
}
