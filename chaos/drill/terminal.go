package drill

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// openTime bounds the opening of a terminal: it is longer than the gateway waits for a node's stream.
const openTime = 30 * time.Second

// OpenTerminal opens a terminal of the allocation as its tenant does, and calls opened once a shell in it has
// printed a computed value. It returns when the far side has ended the terminal, with the code and the reason that
// the browser got. An error means that it could not be opened, or that ctx ended first.
type OpenTerminal func(ctx context.Context, opened func()) (End, error)

// End describes how a terminal ended.
type End struct {
	Code   int    // of the WebSocket's close frame; 1006: the connection broke
	Reason string // in that frame
}

func (e End) String() string {
	return fmt.Sprintf("closed with %d %s", e.Code, cmp.Or(e.Reason, "and no reason"))
}

// openTerminal is a terminal that stays open during the fault.
type openTerminal struct {
	end   chan struct{} // closed when it has ended
	how   End
	err   error
	close context.CancelFunc
}

// hold opens and records a terminal, if the scenario expects one to end. The terminal is nil if none is expected;
// the result is false if it could not be opened.
func (r *runner) hold(ctx context.Context) (*openTerminal, bool) {
	if r.Plan.Scenario.Expect.Terminal == "" {
		return nil, true
	}
	if r.Terminal == nil {
		r.record(Event{Kind: Probed,
			Seen: &Seen{Name: ProbeTerminal, Stage: Before, NotRun: true, Why: "no terminal can be opened from here"}})
		return nil, false
	}
	began, opened := time.Now(), make(chan struct{})
	ctx, end := context.WithCancel(ctx)
	t := &openTerminal{end: make(chan struct{}), close: end}
	go func() {
		defer close(t.end)
		t.how, t.err = r.Terminal(ctx, sync.OnceFunc(func() { close(opened) }))
	}()
	seen := Seen{Name: ProbeTerminal, Stage: Before, Why: "open, and its shell computes"}
	select {
	case <-opened:
	case <-t.end:
		seen.NotRun, seen.Why = true, "it was not opened: "+t.failure()
	case <-time.After(openTime):
		seen.NotRun, seen.Why = true, fmt.Sprintf("it was not open after %s", openTime)
	case <-ctx.Done():
		seen.NotRun, seen.Why = true, "the run ended first"
	}
	seen.TookMS = diag.Measured(time.Since(began))
	r.record(Event{Kind: Probed, Seen: &seen})
	return t, !seen.NotRun
}

// hangUp closes the terminal if it is still open, and waits until its connection is closed.
func (t *openTerminal) hangUp() {
	if t != nil {
		t.close()
		<-t.end
	}
}

func (t *openTerminal) failure() string {
	if t.err != nil {
		return t.err.Error()
	}
	return t.how.String()
}

// ended waits until the terminal ends, for as long as a fault has to be detected, and records it.
func (r *runner) ended(ctx context.Context, t *openTerminal) {
	began := time.Now()
	want, budget := r.Plan.Scenario.Expect.Terminal, r.Plan.Budgets.DetectWithin.Std()
	seen := Seen{Name: ProbeTerminal, Stage: During}
	select {
	case <-t.end:
		seen.Held, seen.Why = t.err == nil && t.how.Reason == want, t.failure()
	case <-time.After(budget):
		seen.Why = fmt.Sprintf("still open after %s", budget)
	case <-ctx.Done():
		return
	}
	seen.TookMS = diag.Measured(time.Since(began))
	r.record(Event{Kind: Probed, Seen: &seen})
}
