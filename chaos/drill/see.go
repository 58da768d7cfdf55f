package drill

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// see repeats a probe until it passes (or, if want is false, fails), or its time is over. It returns false if ctx
// ended first, which proves nothing. A run of the tool that failed counts as neither.
func see(ctx context.Context, m Machine, l chaos.PlannedProbe, stage Stage, want bool) (Seen, bool) {
	began := time.Now()
	within := l.Check.Within.Duration()
	for last := (Seen{Name: l.Check.Name, Stage: stage, NotRun: true}); ; {
		why, ran := once(ctx, m, l.Check)
		if ctx.Err() != nil {
			return Seen{}, false
		}
		if ran || last.NotRun {
			last.Held, last.NotRun, last.Why = ran && why == "", !ran, why
		}
		last.TookMS = diag.Measured(time.Since(began))
		if (ran && last.Held == want) || time.Since(began) >= within {
			return last, true
		}
		sleep.For(ctx, retryPause)
	}
}

// once runs the probe once; it returns why it failed, and whether the tool ran at all.
func once(ctx context.Context, m Machine, c step.Check) (why string, ran bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if m == nil {
		return "there is no such machine", false
	}
	e := c.Exec
	if c.Unit != "" {
		pid, err := mainPID(ctx, m, c.Unit)
		if err != nil {
			return err.Error(), false
		}
		e = e.WithMainPID(pid)
		e.Argv = append([]string{"nsenter", "-t", strconv.Itoa(pid), "-m", "--"}, e.Argv...)
	}
	out, err := m.Exec(ctx, e)
	if err != nil {
		return err.Error(), false
	}
	return c.Against(out.Code, out.Text), true
}

// mainPID returns the main process of a unit, in whose mount namespace the probe runs.
func mainPID(ctx context.Context, m Machine, unit string) (int, error) {
	out, err := m.Exec(ctx, step.Exec{Argv: []string{"systemctl", "show", "-P", "MainPID", unit}})
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.Text))
	if err != nil || pid == 0 {
		return 0, fmt.Errorf("%s does not run, so it sees nothing", unit)
	}
	return pid, nil
}
