package platform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// leaf is one number or time of a document: set changes it.
type leaf struct {
	path string
	time bool
	set  func(v any)
}

// leaves lists the numbers and times of a JSON document. The detail of an event is a document of its own.
func leaves(path string, v any, set func(any)) (out []leaf) {
	switch v := v.(type) {
	case json.Number:
		return []leaf{{path: path, set: set}}
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return []leaf{{path: path, time: true, set: set}}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, leaves(path+"."+key, v[key], func(n any) { v[key] = n })...)
		}
	case []any:
		for i := range v {
			out = append(out, leaves(fmt.Sprint(path, "[", i, "]"), v[i], func(n any) { v[i] = n })...)
		}
	}
	return out
}

func document(t *testing.T, v any) (doc map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// wrongValues are values that no honest node sends.
func wrongValues(isTime bool) []any {
	if isTime {
		return []any{"9999-12-31T23:59:59-23:59", "0001-01-02T00:00:00Z", "0000-01-01T00:00:00+23:59",
			"2999-01-01T00:00:00Z"}
	}
	var out []any
	for _, n := range []string{"-9223372036854775808", "-1", "0", "2147483648", "4611686018427387904",
		"9223372036854775806", "9223372036854775807", "18446744073709551615", "-1e400"} {
		out = append(out, json.Number(n))
	}
	return out
}

// fullHeartbeat and fullEvents have a value in every field that holds a number or a time. Only a generation is left
// out: heartbeats with different ones come from two hosts.
func fullHeartbeat(now time.Time) wire.HeartbeatRequest {
	ro := wire.Rollout{ID: "of-nobody", State: wire.RolloutSoaking, SoakSeconds: 1, SoakUntil: now, Attempts: 1,
		Probes: map[string]wire.ProbeState{wire.ProbeNoop: {Fails: 1, At: now}}}
	return wire.HeartbeatRequest{NodeInstanceID: "host-n1", At: now, Counters: map[string]int64{"retries": 1},
		Boot: &wire.BootReport{NextSeq: 1, Rollout: &ro}}
}

func fullEvents(now time.Time) []report.Event {
	one, big := 1, int64(1)
	id := &report.Identity{Index: &one, PCI: "0000:3b:00.0", GPUInstance: &one, ComputeInstance: &one}
	return []report.Event{
		{Type: report.XIDEvent, Source: report.FromKernelLog, GPU: id,
			XID: &report.XID{Code: &one, PID: &one, CausedBy: &one, Recovery: &big, Port: &one, Times: 1}},
		{Type: report.DroppedEvent, Source: report.FromAgent,
			Dropped: &report.Dropped{Since: now, Why: "rate", Count: map[report.EventType]int64{report.XIDEvent: 1}}},
		{Type: report.DroppedEvent, Source: report.FromAgent,
			Dropped: &report.Dropped{Since: now, Why: "lost", Count: map[report.EventType]int64{report.XIDEvent: 1}}},
		{Type: report.CoverageEvent, Source: report.FromKernelLog, Coverage: &report.Coverage{From: now, To: now, Lost: 1,
			Gaps: []report.Gap{{Cause: "overrun", From: now, To: &now, Lost: 1}}}},
		{Type: report.ProbeEvent, Source: report.FromAgent,
			Probe: &report.Probe{State: report.Stuck, Since: &now, PID: 1, Code: 1, Count: &one, Expected: &one}},
	}
}

// TestNumbersOfANode: whatever a node puts in place of any one number or time, its next honest heartbeat and event are
// stored, no count goes down, and no request is an internal error.
func TestNumbersOfANode(t *testing.T) {
	var passed atomic.Int64 // seconds: the limits per node are of requests in a time
	now := time.Now().UTC()
	clock := func() time.Time { return now.Add(time.Duration(passed.Load()) * time.Second) }
	p := platformtest.StartPlatform(t, platformtest.Options{Nodes: []platform.SeedNode{{ID: "n1"}}, Now: clock})
	n := newGPUNode(t, p, "n1", clock)
	events, beats := path(wire.PathEvents, "n1"), path(wire.PathHeartbeat, "n1")
	watermark := func() uint64 {
		mark, err := p.Store().Watermark(t.Context(), "n1", "host-n1")
		if err != nil {
			t.Fatal(err)
		}
		return mark
	}
	counts := map[string]int64{}
	honest := func(of string) {
		t.Helper()
		passed.Add(1)
		if code := beat(t, p, n.cred, wire.HeartbeatRequest{NodeInstanceID: "host-n1"}); code != "" {
			t.Fatalf("%s: the next heartbeat: %s", of, code)
		}
		seq := watermark() + 1
		var out wire.EventsResponse
		status, _ := p.DoNode(n.cred, http.MethodPost, events, wire.EventsRequest{NodeInstanceID: "host-n1", Oldest: seq,
			Events: []wire.Event{{Seq: seq, At: time.Now(), Kind: wire.EventDecision}}}, &out)
		if status != http.StatusOK || out.Watermark != seq || seq > wire.MaxSeq/2 {
			t.Fatalf("%s: the next event is %d, %d %+v", of, seq, status, out)
		}
		dropped, err := p.Store().GPUDropped(t.Context(), "n1")
		if err != nil {
			t.Fatalf("%s: %v", of, err)
		}
		for _, d := range dropped {
			for kind, count := range d.Count {
				key := d.Why + " " + string(kind)
				if count < counts[key] || count > report.MaxCount {
					t.Fatalf("%s: %s: %d, after %d", of, key, count, counts[key])
				}
				counts[key] = count
			}
		}
	}
	post := func(of, url string, doc map[string]any) {
		t.Helper()
		if status, _ := p.DoNode(n.cred, http.MethodPost, url, doc, nil); status >= 500 {
			t.Errorf("%s: %d", of, status)
		}
	}
	tries := 0
	each := func(name string, doc map[string]any, send func(of string)) {
		for _, l := range leaves(name, doc, nil) {
			for _, v := range wrongValues(l.time) {
				l.set(v)
				of := fmt.Sprint(l.path, " = ", v)
				send(of)
				honest(of)
				tries++
			}
			l.set(map[bool]any{true: now.Format(time.RFC3339), false: json.Number("1")}[l.time])
		}
	}
	doc := document(t, fullHeartbeat(now))
	each("heartbeat", doc, func(of string) { post(of, beats, doc) })
	frame := document(t, wire.EventsRequest{NodeInstanceID: "host-n1", Oldest: 1,
		Events: []wire.Event{{Seq: 1, At: now, Kind: "decision", CorrelationID: "c"}}})
	each("events", frame, func(of string) { post(of, events, frame) })
	for _, e := range fullEvents(now) {
		e.APIVersion, e.Kind, e.At = report.APIVersion, report.KindEvent, now
		doc := document(t, e)
		each("gpu."+string(e.Type), doc, func(of string) {
			detail, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			seq := watermark() + 1
			post(of, events, document(t, wire.EventsRequest{NodeInstanceID: "host-n1", Oldest: seq,
				Events: []wire.Event{{Seq: seq, At: now, Kind: e.Type.WireKind(), Detail: detail, CorrelationID: "c"}}}))
		})
	}
	if tries < 200 {
		t.Errorf("only %d tries", tries)
	}
	rows, err := p.Store().EvidenceOf(t.Context(), "n1", "", now.Add(-time.Hour), 10_000)
	if err != nil || len(rows) == 0 {
		t.Fatal(len(rows), err)
	}
	for _, e := range rows {
		if len(e.Detail) == 0 && e.Kind == store.NodeEvent {
			t.Errorf("evidence without its text: %+v", e)
		}
	}
}
