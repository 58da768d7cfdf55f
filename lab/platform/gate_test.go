package platform_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// TestStrangersFillNoEvidence: enrollment needs no certificate, and a certificate can be used on any path.
// Whatever a caller calls itself, its denials are one row per window, are not attributed to a nonexistent node,
// and are counted.
func TestStrangersFillNoEvidence(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now})
	cred := p.Enroll(platformtest.NodeID)
	const made = "made-up\n\"node\" "
	storm := func() {
		for i := range 20 {
			name := made + strings.Repeat("x", 200+i)
			if code, _ := enrollAs(t, p, "no token", wire.EnrollRequest{NodeID: name, NodeInstanceID: name}); code == "" {
				t.Fatal("a stranger was enrolled")
			}
			var e wire.ErrorBody
			stranger := cred
			stranger.NodeID = "made-up-" + strings.Repeat("x", i)
			p.DoNode(stranger, http.MethodPost, path(wire.PathHeartbeat, stranger.NodeID),
				wire.HeartbeatRequest{NodeInstanceID: name}, &e)
			if e.Error.Code != wire.DenyNotNodeBound {
				t.Fatalf("a node that is none: %+v", e)
			}
		}
	}
	rows := func(kind string) []store.Evidence {
		t.Helper()
		list, err := p.Store().Recent(t.Context(), kind, 100)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	storm()
	clk.advance(10 * time.Minute)
	storm()
	for _, kind := range []string{store.NodeDenied, store.NodeEnrollDenied} {
		list := rows(kind)
		if len(list) != 2 {
			t.Fatalf("%s: %d rows in two windows", kind, len(list))
		}
		for _, e := range list {
			name, _ := e.Detail["claimed_node_id"].(string)
			if e.NodeID != "" || name == "" || len(name) > 64 || strings.ContainsAny(name+e.InstanceID, "\n\" ") ||
				len(e.InstanceID) > 64 {
				t.Errorf("%s: %+v", kind, e)
			}
		}
		if list[0].Detail["count"] != 20.0 { // 19 of the previous window, and itself
			t.Errorf("%s: the repetitions are not said: %+v", kind, list[0].Detail)
		}
	}
	if open := p.OpenFailures(); open > 4 {
		t.Errorf("%d open failures", open)
	}
}

// TestANodesOwnDenialsAreKept: each of a node's own denials is found by its correlation id, and the last one
// always counts.
func TestANodesOwnDenialsAreKept(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	p.SetIdentity(platformtest.NodeID, wire.DenyRevoked)
	for range 40 {
		beat(t, p, cred, wire.HeartbeatRequest{})
	}
	list, err := p.Store().Recent(t.Context(), store.NodeDenied, 100)
	if err != nil || len(list) != 30 || list[0].NodeID != platformtest.NodeID {
		t.Errorf("%d rows, %v", len(list), err)
	}
	if n := readNode(t, p); n.Recovery.Denial == nil || n.Recovery.Denial.Code != wire.DenyRevoked {
		t.Errorf("last denial %+v", n.Recovery.Denial)
	}
}

// TestStrangersFillNoEvidenceAtTheEdge: a browser's upgrade is refused without a token or a session. Whatever a
// caller asks for is one row per window; for an existing session, every refusal is found by its correlation id.
func TestStrangersFillNoEvidenceAtTheEdge(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now})
	p.Enroll(platformtest.NodeID)
	refused := func(session, correlationID string) {
		t.Helper()
		req, err := http.NewRequestWithContext(short(t), http.MethodGet, p.TerminalBase+"/v1/terminal/"+session, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(wire.HeaderCorrelationID, correlationID)
		resp, err := p.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if e := envelope(t, resp); e.Code != "upgrade_required" {
			t.Fatalf("%d %+v", resp.StatusCode, e)
		}
	}
	for range 2 {
		for i := range 20 {
			refused(strings.Repeat("x", 4000+i), fmt.Sprintf("made-up-%d", i))
		}
		clk.advance(10 * time.Minute)
	}
	list, err := p.Store().Recent(t.Context(), store.BrowserRejected, 100)
	if err != nil || len(list) != 2 || list[0].Detail["count"] != 20.0 || len(list[0].SessionID) > 64 {
		t.Fatalf("%d rows in two windows, %v, %+v", len(list), err, list)
	}
	m := mint(t, p)
	for _, walk := range []string{"walk-1", "walk-2", "walk-3"} {
		refused(m.SessionID, walk)
		wantEvidence(t, p, walk, store.BrowserRejected)
	}
	if list, err = p.Store().Recent(t.Context(), store.BrowserRejected, 1); err != nil ||
		list[0].SessionID != m.SessionID || list[0].NodeID != platformtest.NodeID {
		t.Errorf("of a session: %+v, %v", list, err)
	}
}
