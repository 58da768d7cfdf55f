package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/outbox"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// TestEventsWaitAsLongAsAsked: a platform that asks the agent to wait gets the next request after that time, and
// then every event, in order. No request exceeds the limits.
func TestEventsWaitAsLongAsAsked(t *testing.T) {
	p := newFakePlatform(t)
	cfg, _ := recoveryConfig(t, p)
	p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
	cfg.Boot = openBoot(inMemory(), slog.New(slog.DiscardHandler), newDecisions())
	const kept = 3*wire.MaxEvents + 1
	for range kept {
		must(t, cfg.Boot.out.Add(wire.Event{Kind: string(make([]byte, 2*wire.MaxEventKind)),
			Detail: make([]byte, outbox.MaxDetail+1)}))
	}
	must(t, cfg.Boot.out.Replay(1))
	asked, busy, got := 0, true, []uint64{}
	p.instead("POST "+wire.PathEvents, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if busy {
			w.Header().Set("Retry-After", "1")
			deny(w, http.StatusTooManyRequests, "too_much")
			return
		}
		var in wire.EventsRequest
		if json.NewDecoder(r.Body).Decode(&in) != nil || len(in.Events) > wire.MaxEvents {
			t.Errorf("%d events in one request", len(in.Events))
		}
		for _, e := range in.Events {
			if len(e.Kind) > wire.MaxEventKind || len(e.Detail) > wire.MaxEventDetail {
				t.Errorf("event %d has a kind of %d bytes and a detail of %d", e.Seq, len(e.Kind), len(e.Detail))
			}
			got = append(got, e.Seq)
		}
		_ = json.NewEncoder(w).Encode(wire.EventsResponse{Watermark: got[len(got)-1]})
	})
	r := newRuntime(cfg.withDefaults())
	defer r.api.close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	began := time.Now()
	r.sendEvents(ctx)
	r.sendEvents(ctx) // as the next heartbeat does
	if took := time.Since(began); asked != 1 && took < time.Second {
		t.Fatalf("the platform was asked %d times within %s, and named a second", asked, took)
	}
	busy = false
	wait.For(t, "the events come", func() bool {
		r.sendEvents(ctx)
		return len(got) > 0
	})
	if took := time.Since(began); took < time.Second {
		t.Errorf("asked again after %s", took)
	}
	if len(got) != kept || got[0] != 1 || got[kept-1] != kept {
		t.Errorf("%d of %d events came: %v", len(got), kept, got)
	}
}
