package drill_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// hitch is the fate of one call.
type hitch string

const (
	fine      hitch = ""
	cutBefore hitch = "cut before it arrives"
	cutAfter  hitch = "cut before its answer arrives"
	slow      hitch = "slow" // by slowBy
	frozen    hitch = "frozen"
	frozenOut hitch = "its answer is frozen"
)

const slowBy = 4 * time.Second

// line is the connection to a machine. Once frozen it stays so until it is given up.
type line struct {
	mu      sync.Mutex
	hitches map[string][]hitch // of the next calls, by command; "" means any
	down    [2]time.Duration   // times of the run between which nothing gets through
	dead    bool
	delay   time.Duration // of every answer
}

// next returns the fate of the next call.
func (l *line) next(command string, at time.Duration) hitch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return frozen
	}
	if at >= l.down[0] && at < l.down[1] {
		return cutBefore
	}
	h := fine
	for _, of := range [...]string{command, ""} {
		if more := l.hitches[of]; len(more) > 0 && h == fine {
			h, l.hitches[of] = more[0], more[1:]
		}
	}
	l.dead = h == frozen || h == frozenOut
	return h
}

func (l *line) reconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}

var errCut = errors.New("the connection ended before its answer")

// across makes a call over the line. A request that has arrived continues on the machine, whatever happens to the
// line.
func across[T any](ctx context.Context, b *box, command string, most time.Duration, f func() T) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	h := b.line.next(command, time.Since(b.w.booted))
	wait := b.line.delay
	if h == slow {
		wait += slowBy
	}
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case <-time.After(wait):
	}
	answer := make(chan T, 1)
	switch h {
	case cutBefore:
		return none, errCut
	case frozen:
		<-ctx.Done()
		return none, ctx.Err()
	}
	b.w.busy.Go(func() { answer <- f() })
	if h == frozenOut {
		<-ctx.Done()
		return none, ctx.Err()
	}
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case v := <-answer:
		if h == cutAfter {
			return none, errCut
		}
		return v, nil
	}
}

// Fault implements drill.Machine.
func (b *box) Fault(ctx context.Context, in []byte, args ...string) (step.Reply, error) {
	b.w.expected(b.id, args)
	most := 90 * time.Second
	if args[0] == "renew" || args[0] == "status" {
		most = 10 * time.Second
	}
	return across(ctx, b, args[0], most, func() step.Reply { return b.command(in, args) })
}

// Exec implements drill.Machine.
func (b *box) Exec(ctx context.Context, e step.Exec) (drill.Output, error) {
	return across(ctx, b, "exec", 60*time.Second, func() drill.Output { return b.w.tool(e.Argv) })
}

// Reconnect implements drill.Machine.
func (b *box) Reconnect() { b.line.reconnect() }

// Leave implements drill.Machine.
func (b *box) RemoveHelper(ctx context.Context) error {
	_, err := across(ctx, b, "leave", 10*time.Second, func() bool { return true })
	return err
}
