package platform_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

// events returns a request of n events with details of size bytes, with sequence numbers from first on.
func events(instance string, first uint64, n, size int) wire.EventsRequest {
	in := wire.EventsRequest{NodeInstanceID: instance}
	for i := range uint64(n) {
		in.Events = append(in.Events,
			wire.Event{Seq: first + i, Kind: "decision", At: time.Now(), CorrelationID: correlationID,
				Detail: json.RawMessage(`"` + strings.Repeat("x", max(0, size-2)) + `"`)})
	}
	return in
}

// TestEventFlood: a node's events are bounded in size, number and rate, and are accepted only from hosts that have
// sent a heartbeat. A full outbox of an agent is accepted at once.
func TestEventFlood(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	p := platformtest.StartPlatform(t, platformtest.Options{Now: func() time.Time { return time.Unix(0, now.Load()) }})
	cred := p.Enroll(platformtest.NodeID)
	send := func(in wire.EventsRequest) (status int, code string, header http.Header) {
		var e wire.ErrorBody
		status, header = p.DoNode(cred, http.MethodPost, path(wire.PathEvents, platformtest.NodeID), in, &e)
		return status, e.Error.Code, header
	}
	for i := range 5 {
		if status, code, _ := send(events("made-up-"+strconv.Itoa(i), 1, 1, 8)); status != http.StatusConflict ||
			code != "instance_unknown" {
			t.Errorf("events of a host that sent no heartbeat: %d %s", status, code)
		}
	}
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	large := events("host-a", 1, 1, 8)
	large.Events[0].Kind = strings.Repeat("k", wire.MaxEventKind+1)
	foreign := events("host-a", 1, 1, 8)
	foreign.Events[0].CorrelationID = strings.Repeat("c", wire.MaxEventKind+1)
	for name, in := range map[string]wire.EventsRequest{"65 events": events("host-a", 1, wire.MaxEvents+1, 8),
		"a large detail": events("host-a", 1, 1, wire.MaxEventDetail+1), "a long kind": large,
		"a long correlation id": foreign} {
		if status, code, _ := send(in); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", name, status, code)
		}
	}

	const outbox = 1024 // number of events that an agent keeps: all of them may arrive at once, each of the maximum size
	taken, wait := uint64(0), 0
	for status := http.StatusOK; status == http.StatusOK && taken < 4*outbox; {
		var header http.Header
		if status, _, header = send(events("host-a", taken+1, wire.MaxEvents, wire.MaxEventDetail)); status == http.StatusOK {
			taken += wire.MaxEvents
			continue
		}
		wait, _ = strconv.Atoi(header.Get("Retry-After"))
		if status != http.StatusTooManyRequests || wait < 1 {
			t.Fatalf("status %d, Retry-After %q", status, header.Get("Retry-After"))
		}
	}
	if taken < outbox || taken > 2*outbox {
		t.Errorf("%d events of %d KiB were taken at once, want one outbox and no two", taken, wire.MaxEventDetail>>10)
	}
	now.Add(int64(time.Duration(wait) * time.Second))
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	if status, code, _ := send(events("host-a", taken+1, wire.MaxEvents, wire.MaxEventDetail)); status != http.StatusOK {
		t.Errorf("after the time that it was asked to wait: %d %s", status, code)
	}
}

// TestHeartbeatFlood: heartbeats are bounded as well, since they are stored.
func TestHeartbeatFlood(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	send := func(h wire.HeartbeatRequest) int {
		status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathHeartbeat, platformtest.NodeID), h, nil)
		return status
	}
	if status := send(wire.HeartbeatRequest{NodeInstanceID: "host-a",
		Hostname: strings.Repeat("h", 64<<10)}); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a heartbeat of 64 KiB and more: %d", status)
	}
	h := wire.HeartbeatRequest{NodeInstanceID: "host-a", Hostname: strings.Repeat("h", 60<<10)}
	for i := 0; ; i++ {
		switch status := send(h); {
		case status == http.StatusTooManyRequests && i > 1:
			return
		case status != http.StatusOK:
			t.Fatalf("heartbeat %d: %d", i, status)
		case i == 100:
			t.Fatalf("%d heartbeats of 60 KiB were stored", i)
		}
	}
}
