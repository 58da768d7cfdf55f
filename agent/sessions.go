package agent

import (
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/terminal"
	"github.com/gpuaas/gpuaasctl/wire"
)

// sessions is the terminals that are open or being opened, so that a decision can end them. The zero value is ready.
type sessions struct {
	mu      sync.Mutex
	held    map[*held]bool // guarded by mu
	closing map[string]int // allocations that are being cleaned up, how often; guarded by mu
}

// held is one terminal. Its ctx ends it, with a terminal.Decided as cause; gone is closed when it has ended.
type held struct {
	ctx        context.Context
	end        context.CancelCauseFunc
	allocation string
	gone       chan struct{}
	release    func() // must be called once, when the terminal has ended
}

// hold begins a terminal of an allocation, for at most limit where that is not 0. It is refused while the allocation is
// being cleaned up.
func (s *sessions) hold(ctx context.Context, allocation string, limit time.Duration) (*held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing[allocation] > 0 {
		return nil, &taskError{code: wire.EndAllocationReleased, err: terminal.Decided(wire.EndAllocationReleased)}
	}
	stop := context.CancelFunc(func() {})
	if limit > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, limit, terminal.Decided(wire.EndSessionLimit))
	}
	h := &held{allocation: allocation, gone: make(chan struct{})}
	h.ctx, h.end = context.WithCancelCause(ctx)
	h.release = func() {
		h.end(nil)
		stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, h)
		close(h.gone)
	}
	if s.held == nil {
		s.held = map[*held]bool{}
	}
	s.held[h] = true
	return h, nil
}

// endAll ends every terminal and waits for none.
func (s *sessions) endAll(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.held {
		h.end(terminal.Decided(why))
	}
}

// clear ends the terminals of an allocation, and lets none begin until done is called. The channels say when each is gone.
func (s *sessions) clear(allocation, why string) (gone []<-chan struct{}, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing == nil {
		s.closing = map[string]int{}
	}
	s.closing[allocation]++
	for h := range s.held {
		if h.allocation == allocation {
			h.end(terminal.Decided(why))
			gone = append(gone, h.gone)
		}
	}
	return gone, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closing[allocation]--; s.closing[allocation] == 0 {
			delete(s.closing, allocation)
		}
	}
}
