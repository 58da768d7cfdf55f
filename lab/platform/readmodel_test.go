package platform_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

func TestHeartbeatAndReadModel(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now})
	n := readNode(t, p)
	if n.Health != "UNKNOWN" || n.Recovery.State == "normal" || n.TerminalReadiness != "unknown" {
		t.Errorf("a node that never spoke: %+v", n)
	}
	for i, want := range []string{"unknown", "unknown", "unknown", "unknown", "pass"} {
		if c := n.Recovery.Checklist[i]; c.Status != want {
			t.Errorf("a node that never spoke: %+v, want %s", c, want)
		}
	}
	cred := p.Enroll(platformtest.NodeID)
	beat := wire.HeartbeatRequest{NodeInstanceID: "machine-1", BootID: "boot-1", AgentVersion: "v1", APIURL: p.NodeAPIURL,
		TerminalURL: p.NodeTerminalURL, At: time.Now()}
	send := func() http.Header {
		t.Helper()
		var out wire.HeartbeatResponse
		status, header := p.DoNode(cred, http.MethodPost, path(wire.PathHeartbeat, platformtest.NodeID), beat, &out,
			wire.HeaderCorrelationID, correlationID)
		if status != 200 || out.Time.IsZero() {
			t.Fatalf("heartbeat: %d %+v", status, out)
		}
		return header
	}
	if from := send().Get(wire.HeaderReplayFrom); from != "1" {
		t.Errorf("replay from %q", from)
	}
	id := enqueue(t, p, map[string]any{"type": "noop"})
	p.DoNode(cred, http.MethodGet, waitPath, nil, nil)
	p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id), completed(), nil)
	n = readNode(t, p)
	if n.NodeInstanceID != "machine-1" || n.Agent.Version != "v1" || n.Agent.LastSeenAt == "" ||
		n.Agent.APIURL != p.NodeAPIURL || n.Now == "" || n.Cert.NotAfter == "" {
		t.Errorf("read model %+v", n)
	}
	if n.Recovery.Reason != "none" || n.Recovery.State != "normal" || len(n.Recovery.Checklist) != 5 {
		t.Errorf("five of five: %+v", n.Recovery)
	}
	beat.TerminalURL = "https://elsewhere.gpuaas.test"
	send()
	if n = readNode(t, p); n.Recovery.Reason != "endpoint_profile_drift" {
		t.Errorf("another terminal URL: %+v", n.Recovery)
	}
	beat.TerminalURL = p.NodeTerminalURL
	send()
	clk.advance(platformtest.StaleAfter + time.Second)
	if n = readNode(t, p); n.Recovery.Reason != "node_agent_unreachable" || n.Recovery.State != "temporary" ||
		n.Recovery.Checklist[0].Status != "fail" {
		t.Errorf("stale: %+v", n.Recovery)
	}
	wantEvidence(t, p, correlationID, "node.heartbeat_changed")
}

func TestEvents(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "a"})
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "b"})
	send := func(instance string, seqs ...uint64) uint64 {
		t.Helper()
		in := wire.EventsRequest{NodeInstanceID: instance}
		for _, s := range seqs {
			in.Events = append(in.Events,
				wire.Event{Seq: s, Kind: "process_alive", At: time.Now(), CorrelationID: correlationID})
		}
		var out wire.EventsResponse
		if status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathEvents, platformtest.NodeID), in, &out); status != 200 {
			t.Fatalf("events: %d", status)
		}
		return out.Watermark
	}
	for _, c := range []struct {
		instance string
		seqs     []uint64
		want     uint64
	}{{"a", []uint64{1, 2}, 2}, {"a", []uint64{2, 4, 5}, 2}, {"b", []uint64{1}, 1}, {"a", []uint64{3}, 5}, {"a", nil, 5}} {
		if got := send(c.instance, c.seqs...); got != c.want {
			t.Errorf("%s %v: watermark %d, want %d", c.instance, c.seqs, got, c.want)
		}
	}
	rows, err := p.Store().EvidenceBy(t.Context(), correlationID, "")
	if err != nil || len(rows) != 6 {
		t.Errorf("%d events recorded once each, %v", len(rows), err)
	}
	if status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathEvents, platformtest.NodeID),
		wire.EventsRequest{NodeInstanceID: "a", Events: []wire.Event{{}}}, nil); status != 400 {
		t.Errorf("an event without a number: %d", status)
	}
}
