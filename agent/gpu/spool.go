package gpu

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// Limits on a node's GPU events: the outbox has room for 1024 undelivered events, and other events need some of
// it. A failing driver may report 800,000 lines.
const (
	maxBurst    = 128             // events at once
	refill      = 2 * time.Second // another one
	maxUnsent   = 384             // of all
	maxDevices  = 128             // of single-GPU sample events: newer ones are more detailed
	reportEvery = time.Minute     // how often counts of dropped events are reported
)

// spool puts events into the outbox within the limits. It is safe for concurrent use.
type spool struct {
	out  Outbox
	log  *slog.Logger
	boot string // of this machine; "" where it cannot be read
	file *keeper

	mu      sync.Mutex // guards what is below
	tokens  float64
	at      time.Time
	dropped map[string]*report.Dropped // by reason
}

// add stores an event, or counts it as dropped. It reports whether the event was stored. The file of the keeper
// always gets the event.
func (s *spool) add(e *report.Event) bool {
	e.APIVersion, e.Kind = report.APIVersion, report.KindEvent
	e.At, e.BootID = e.At.UTC(), s.boot
	s.file.event(e)
	detail, err := json.Marshal(e)
	if err != nil {
		s.log.Error("an event about a GPU could not be encoded", "error", err)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := time.Now(); {
	case len(detail) > report.MaxEvent:
		return s.drop(e.Type, "size", now)
	case s.out.Unsent(report.WirePrefix) >= maxUnsent,
		e.Type == report.DeviceEvent && s.out.Unsent(e.Type.WireKind()) >= maxDevices:
		return s.drop(e.Type, "unsent", now)
	case e.Type != report.DroppedEvent && !s.token(now):
		return s.drop(e.Type, "rate", now)
	}
	if err := s.out.Add(wire.Event{At: e.At, Kind: e.Type.WireKind(), Detail: detail}); err != nil {
		s.log.Error("an event about a GPU is kept in memory alone", "error", err)
	}
	return true
}

// token consumes one token of the rate limit.
func (s *spool) token(now time.Time) bool {
	if s.at.IsZero() {
		s.tokens, s.at = maxBurst, now
	}
	s.tokens = min(maxBurst, s.tokens+max(0, float64(now.Sub(s.at))/float64(refill)))
	s.at = now
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

func (s *spool) drop(t report.EventType, why string, now time.Time) bool {
	if t == report.DroppedEvent {
		return false
	}
	if s.dropped == nil {
		s.dropped = map[string]*report.Dropped{}
	}
	d := s.dropped[why]
	if d == nil {
		d = &report.Dropped{Since: now.UTC(), Count: map[report.EventType]int64{}, Why: why}
		s.dropped[why] = d
		s.log.Warn("events about GPUs are dropped", "reason", why, "type", string(t))
	}
	d.Count[t]++
	return false
}

// reportAll reports dropped events every minute and at the end.
func (s *spool) reportAll(ctx context.Context) {
	for sleep.For(ctx, reportEvery) {
		s.reportDropped()
	}
	s.reportDropped()
}

// reportDropped creates an event for each count. A count that cannot be stored is reported later, together with
// further drops.
func (s *spool) reportDropped() {
	s.mu.Lock()
	counts := s.dropped
	s.dropped = nil
	s.mu.Unlock()
	for why, d := range counts {
		if s.add(&report.Event{Type: report.DroppedEvent, Source: report.FromAgent, At: time.Now(), Dropped: d}) {
			continue
		}
		s.mu.Lock()
		if s.dropped == nil {
			s.dropped = map[string]*report.Dropped{}
		}
		if later := s.dropped[why]; later != nil {
			for t, n := range later.Count {
				d.Count[t] += n
			}
		}
		s.dropped[why] = d
		s.mu.Unlock()
	}
}
