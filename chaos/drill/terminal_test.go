package drill_test

import (
	"context"
	"errors"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// terminalEndings are the endings of runs with a terminal that is open during the fault.
func terminalEndings() []ending {
	released := of(planOf("n1"), func(p *chaos.Plan) { p.Scenario.Expect.Terminal = "allocation_released" })
	endedBy := func(code int, reason string) func(w *world) {
		return func(w *world) { w.tenant = w.tenantUntilBroken(drill.End{Code: code, Reason: reason}) }
	}
	return []ending{
		{"terminal-ended", drill.Pass, "", released, endedBy(4000, "allocation_released")},
		{"terminal-ended-otherwise", drill.Collateral, "closed with 4000 node_fenced, want allocation_released", released,
			endedBy(4000, "node_fenced")},
		{"terminal-without-a-reason", drill.Collateral, "closed with 1006 and no reason, want allocation_released",
			released,
			endedBy(1006, "")},
		{"terminal-survives", drill.Collateral, "still open after 10s, want allocation_released", released, func(w *world) {
			w.tenant = func(ctx context.Context, opened func()) (drill.End, error) {
				opened()
				<-ctx.Done()
				return drill.End{}, ctx.Err()
			}
		}},
		{"terminal-breaks", drill.Collateral, "no route to host, want allocation_released", released, func(w *world) {
			w.tenant = func(_ context.Context, opened func()) (drill.End, error) {
				opened()
				time.Sleep(100 * time.Millisecond)
				return drill.End{Reason: "allocation_released"}, errors.New("no route to host")
			}
		}},
		{"terminal-not-opened", drill.Infra, "not measured: how a terminal ends: it was not opened: HTTP 503", released,
			func(w *world) {
				w.tenant = func(context.Context, func()) (drill.End, error) { return drill.End{}, errors.New("HTTP 503") }
			}},
		{"terminal-never-opens", drill.Infra, "it was not open after 30s", released, func(w *world) {
			w.tenant = func(ctx context.Context, _ func()) (drill.End, error) {
				<-ctx.Done()
				return drill.End{}, ctx.Err()
			}
		}},
		{"terminal-cannot-be-opened", drill.Infra, "no terminal can be opened from here", released, nil},
	}
}

// tenantUntilBroken opens a terminal that the fault ends.
func (w *world) tenantUntilBroken(end drill.End) drill.OpenTerminal {
	return func(ctx context.Context, opened func()) (drill.End, error) {
		if w.anyBroken() {
			return drill.End{}, errors.New("something is broken already")
		}
		opened()
		for !w.anyBroken() {
			select {
			case <-ctx.Done():
				return drill.End{}, ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
		return end, nil
	}
}
