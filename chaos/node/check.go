//go:build linux

package node

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// tryEvery is the pause between two tries of a check.
const tryEvery = 100 * time.Millisecond

// try tries a check until it holds; it says what is against it when its time is over.
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
			why = now // the last try ran out of time, which says nothing
		}
		select {
		case <-ctx.Done():
			return why
		case <-time.After(tryEvery):
		}
	}
}

// once tries it once.
func once(ctx context.Context, c step.Check) string {
	o, err := look(ctx, c)
	if err != nil {
		return err.Error()
	}
	return c.Against(o.code, o.err+o.out)
}

// look runs a check's program, in a unit's mount namespace if it is to see what the unit sees.
func look(ctx context.Context, c step.Check) (o outcome, err error) {
	if c.Unit == "" {
		return tool(ctx, c.Exec.Stdin, c.Exec.Argv...)
	}
	u, err := showUnit(ctx, c.Unit)
	if err != nil || u.MainPID == 0 {
		return o, orText(err, "%s does not run, so it sees nothing", c.Unit)
	}
	inside := func() error {
		o, err = tool(ctx, c.Exec.Stdin, c.Exec.Of(u.MainPID).Argv...) // a child is where the thread is that made it
		return err
	}
	if err := inNamespace(u.MainPID, inside); err != nil {
		return o, err
	}
	return o, nil
}
