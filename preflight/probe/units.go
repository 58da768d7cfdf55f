//go:build linux

package probe

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// gather is how long a question to systemd waits for others: those of one walk come within a millisecond, and each
// systemctl costs ten times as much.
const gather = 2 * time.Millisecond

// units asks systemd for all requests of one moment at once. Nobody is answered from before they asked: who comes
// after the question has gone out begins the next one. The zero value is ready.
type units struct {
	mu   sync.Mutex // guards next and its names
	next *unitBatch
}

// unitBatch is one question. Its answer may be read once done is closed.
type unitBatch struct {
	names  []string
	done   chan struct{}
	all    []unitProps
	err    error
	gaveUp bool // the one who asked had no more time: that says nothing of systemd
}

// show answers like showUnit. Where the common question fails, each asks for itself, since one unit's trouble or the
// end of one caller's time is nobody else's; but a systemd that hangs is not asked twice.
func (u *units) show(ctx context.Context, unit string) (unitProps, error) {
	if !isUnitName(unit) {
		return showUnit(ctx, unit)
	}
	b, leads := u.join(unit)
	if leads {
		u.ask(ctx, b)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case b.err == nil:
		return b.all[slices.Index(b.names, unit)], nil
	case b.gaveUp && !leads, len(b.names) > 1 && !errors.Is(b.err, context.DeadlineExceeded):
		return showUnit(ctx, unit)
	}
	return nil, b.err
}

// ask waits for others and sends the question.
func (u *units) ask(ctx context.Context, b *unitBatch) {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	u.mu.Lock()
	u.next = nil
	u.mu.Unlock()
	b.all, b.err = showUnits(ctx, b.names...)
	b.gaveUp = ctx.Err() != nil
	close(b.done)
}

// join adds unit to the question that is about to go out; leads says that the caller is the one who sends it.
func (u *units) join(unit string) (b *unitBatch, leads bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.next == nil {
		u.next, leads = &unitBatch{done: make(chan struct{})}, true
	}
	if !slices.Contains(u.next.names, unit) {
		u.next.names = append(u.next.names, unit)
	}
	return u.next, leads
}
