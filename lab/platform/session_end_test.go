package platform_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

const (
	sessionEnded websocket.StatusCode = 4000
	// on a busy machine; what has not happened by then never will
	atOnce = 20 * time.Second
)

// onHost opens node streams as one host of the node.
func onHost(host string) http.Header { return http.Header{wire.HeaderNodeInstance: {host}} }

// openOn attaches a browser to a terminal on one host of the node, and also returns how the node's stream was
// closed.
func openOn(t *testing.T, p *platformtest.Platform, cred platformtest.Credential,
	host string) (*websocket.Conn, minted, <-chan error) {
	t.Helper()
	tier.NeedsHost(t)
	left := make(chan error, 1)
	m := mint(t, p)
	go func() {
		url := p.NodeTerminalURL + path(wire.PathNodeTerminal, "", "{session_id}", m.SessionID)
		for { // until the browser is there
			conn, _, err := websocket.Dial(t.Context(), url,
				&websocket.DialOptions{HTTPClient: p.NodeClient(cred), HTTPHeader: onHost(host),
					Subprotocols: []string{wire.TerminalSubprotocol}})
			if err != nil {
				if t.Context().Err() != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
				continue
			}
			sendFrame(t, conn, wire.Frame{Type: "ready"})
			for err == nil {
				_, _, err = conn.Read(context.Background())
			}
			left <- err
			return
		}
	}()
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	if f := readFrame(t, conn); f.Type != "ready" {
		t.Fatalf("frame %+v", f)
	}
	return conn, m, left
}

// wantEnded checks that a decision closed both sides of a session at once, with its reason, and that the evidence
// has it.
func wantEnded(t *testing.T, p *platformtest.Platform, conn *websocket.Conn, m minted, left <-chan error,
	reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atOnce)
	defer cancel()
	kind, b, err := conn.Read(ctx)
	if err != nil || kind != websocket.MessageText || !strings.Contains(string(b), `"code":"`+reason+`"`) {
		t.Fatalf("the browser does not get %s at once: %q, %v", reason, b, err)
	}
	wantClose(t, conn, sessionEnded, reason)
	select {
	case err := <-left:
		if websocket.CloseStatus(err) != sessionEnded || !strings.Contains(err.Error(), reason) {
			t.Errorf("the node's stream was closed with %v, want %d %s", err, sessionEnded, reason)
		}
	case <-time.After(atOnce):
		t.Fatal("the node's stream goes on")
	}
	wait.For(t, "the session's row says why", func() bool { return session(t, p, m.SessionID).Reason == reason })
	if text := evidenceQuery(t, p, "session_id="+m.SessionID); !strings.Contains(text, `"reason":"`+reason+`"`) {
		t.Errorf("the evidence does not name %s: %s", reason, text)
	}
}

// TestSecSessionSurvives: any decision against an allocation, its node or the node's identity ends the open
// terminals, on both sides.
func TestSecSessionSurvives(t *testing.T) {
	node := "/v1/admin/nodes/" + platformtest.NodeID
	for name, c := range map[string]struct {
		call   string
		body   map[string]any
		reason string
	}{
		"release": {"/v1/allocations/" + platformtest.AllocationID + "/release", map[string]any{"reason": "done"},
			wire.EndAllocationReleased},
		"fence":        {node + "/fence", map[string]any{"reason": "r"}, wire.EndNodeFenced},
		"fence a host": {node + "/fence", map[string]any{"reason": "r", "instance_id": "host-a"}, wire.EndNodeFenced},
		"revoke":       {node + "/revoke", map[string]any{"reason": "r"}, wire.EndNodeRevoked},
		"new identity": {node + "/reactivate", map[string]any{"reason": "r", "new_identity": true}, wire.EndIdentityReplaced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p := withRedis(t, func(o *platformtest.Options) { o.Config = slowSweeps })
			cred := p.Enroll(platformtest.NodeID)
			beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"}, wire.HeaderNodeInstance, "host-a")
			conn, m, left := openOn(t, p, cred, "host-a")
			if status, _ := p.Do(http.MethodPost, c.call, c.body, nil); status != 200 {
				t.Fatalf("status %d", status)
			}
			wantEnded(t, p, conn, m, left, c.reason)
		})
	}
}

// TestFenceLeavesTheOtherHost: a fence of one host ends no terminal of the other.
func TestFenceLeavesTheOtherHost(t *testing.T) {
	_, p := withRedis(t)
	cred := p.Enroll(platformtest.NodeID)
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-b"}, wire.HeaderNodeInstance, "host-b")
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"}, wire.HeaderNodeInstance, "host-a")
	conn, m, _ := openOn(t, p, cred, "host-a")
	if status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/fence",
		map[string]any{"reason": "r", "instance_id": "host-b"}, nil); status != 200 {
		t.Fatalf("fence: %d", status)
	}
	if err := conn.Ping(pinged(t, conn)); err != nil {
		t.Fatalf("the terminal of the other host was closed: %v", err)
	}
	if s := session(t, p, m.SessionID); s.Closed != "" {
		t.Errorf("session %+v", s)
	}
}

// pinged is a context for a ping of a connection that has a reader.
func pinged(t *testing.T, conn *websocket.Conn) context.Context {
	conn.CloseRead(t.Context())
	return short(t)
}

// TestCloneEndsSessions: a quarantined node loses its terminals, on every host.
func TestCloneEndsSessions(t *testing.T) {
	_, p := withRedis(t)
	cred := p.Enroll(platformtest.NodeID)
	says := func(host string) string {
		return beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: host, BootID: "boot-" + host}, wire.HeaderNodeInstance,
			host)
	}
	says("host-a")
	conn, m, left := openOn(t, p, cred, "host-a")
	says("host-b")
	if code := says("host-a"); code != wire.DenyCloned {
		t.Fatalf("two hosts alternate: %q", code)
	}
	wantEnded(t, p, conn, m, left, wire.EndNodeCloned)
}

// TestRetireWaitsForTheRelease: a node in use cannot be retired, and the attempt ends no session; the release
// before it does.
func TestRetireWaitsForTheRelease(t *testing.T) {
	_, p := withRedis(t)
	cred := p.Enroll(platformtest.NodeID)
	conn, m, left := openOn(t, p, cred, "host-a")
	retire := func() int {
		status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/retire", map[string]any{"reason": "r"},
			nil)
		return status
	}
	if status := retire(); status != http.StatusConflict {
		t.Fatalf("a node in use is retired: %d", status)
	}
	if s := session(t, p, m.SessionID); s.Closed != "" {
		t.Errorf("a refused decision ended the session: %+v", s)
	}
	p.Do(http.MethodPost, "/v1/allocations/"+platformtest.AllocationID+"/release", map[string]any{"reason": "done"}, nil)
	wantEnded(t, p, conn, m, left, wire.EndAllocationReleased)
	if status := retire(); status != http.StatusConflict {
		t.Errorf("a node that is not cleaned yet is retired: %d", status)
	}
}

// TestSecTokenAfterRelease: a token from before a decision opens nothing afterwards.
func TestSecTokenAfterRelease(t *testing.T) {
	for name, c := range map[string]struct{ call, reason string }{
		"release": {"/v1/allocations/" + platformtest.AllocationID + "/release", wire.EndAllocationReleased},
		"revoke":  {"/v1/admin/nodes/" + platformtest.NodeID + "/revoke", wire.EndNodeRevoked},
		"fence":   {"/v1/admin/nodes/" + platformtest.NodeID + "/fence", wire.EndNodeFenced},
	} {
		t.Run(name, func(t *testing.T) {
			redis, p := withRedis(t)
			p.Enroll(platformtest.NodeID)
			m := mint(t, p)
			if status, _ := p.Do(http.MethodPost, c.call, map[string]any{"reason": "done"}, nil); status != 200 {
				t.Fatalf("status %d", status)
			}
			_, resp, err := attach(t, p, m.URL, m.Token)
			if err == nil || resp.StatusCode != http.StatusConflict || envelope(t, resp).Code != c.reason {
				t.Fatalf("attach: %v %v", resp, err)
			}
			if redis.Exists("gpuaas:terminal:session:" + m.SessionID) {
				t.Error("the refused session is bound in Redis")
			}
			if text := evidenceQuery(t, p, "session_id="+m.SessionID); !strings.Contains(text, "terminal.browser_rejected") ||
				!strings.Contains(text, c.reason) {
				t.Errorf("evidence %s", text)
			}
		})
	}
}

// TestReleaseBeforeTheNodeComes: a node that was asked for a terminal before the release gets no stream after it,
// and a terminal task that it has not taken yet is withdrawn.
func TestReleaseBeforeTheNodeComes(t *testing.T) {
	_, p := withRedis(t)
	node := fakeNode{t, p, p.Enroll(platformtest.NodeID)}
	m := mint(t, p)
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	wait.For(t, "terminal.open is queued", func() bool { return session(t, p, m.SessionID).Task.ID != "" })
	p.Do(http.MethodPost, "/v1/allocations/"+platformtest.AllocationID+"/release", map[string]any{"reason": "done"}, nil)
	if f := readFrame(t, conn); f.Code != wire.EndAllocationReleased {
		t.Errorf("frame %+v", f)
	}
	wantClose(t, conn, sessionEnded, wire.EndAllocationReleased)
	if _, _, err := node.dialStream(short(t), m.SessionID); err == nil {
		t.Error("the node's stream of a released allocation is let in")
	}
	var task wire.Task
	p.DoNode(node.cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
	if task.Type != wire.TaskCleanup {
		t.Errorf("the node's next task is %q", task.Type)
	}
}

// TestReleaseAgainstAttach: in whatever order a release and an attach happen, no session survives both.
func TestReleaseAgainstAttach(t *testing.T) {
	tier.NeedsHost(t)
	const rounds = 12
	var allocations []platform.SeedAllocation
	for i := range rounds {
		allocations = append(allocations,
			platform.SeedAllocation{ID: "race-" + string(rune('a'+i)), NodeID: platformtest.NodeID, State: "active",
				OSUser: "tenant"})
	}
	_, p := withRedis(t, func(o *platformtest.Options) {
		o.Nodes, o.Allocations, o.Config = []platform.SeedNode{{ID: platformtest.NodeID}}, allocations, slowSweeps
	})
	p.Enroll(platformtest.NodeID)
	for i, a := range allocations {
		var m minted
		p.Do(http.MethodPost, "/v1/allocations/"+a.ID+"/terminal-token", nil, &m)
		var wg sync.WaitGroup
		var conn *websocket.Conn
		wg.Go(func() { conn, _, _ = attach(t, p, m.URL, m.Token) })
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 300 * time.Microsecond)
			p.Do(http.MethodPost, "/v1/allocations/"+a.ID+"/release", map[string]any{"reason": "done"}, nil)
		})
		wg.Wait()
		if conn == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), atOnce)
		_, b, err := conn.Read(ctx)
		cancel()
		if err != nil || !strings.Contains(string(b), wire.EndAllocationReleased) {
			t.Fatalf("round %d: a session outlives the release: %q %v", i, b, err)
		}
		conn.CloseNow()
	}
}

// TestSessionLimits: a session ends at its time limit, and an idle one earlier; typing prevents that.
func TestSessionLimits(t *testing.T) {
	tier.NeedsHost(t)
	for name, c := range map[string]struct {
		limit, idle int64
		typing      time.Duration // more than one idle limit, or until it has ended
		reason      string
	}{"absolute": {10, 3600, time.Hour, wire.EndSessionLimit}, "idle": {3600, 8, 10 * time.Second, wire.EndSessionIdle}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p := withRedis(t, func(o *platformtest.Options) {
				o.Config = func(c2 *platform.Config) {
					c2.Policy.SessionLimit, c2.Policy.SessionIdle = c.limit, c.idle
				}
			})
			conn, m, left := openOn(t, p, p.Enroll(platformtest.NodeID), "host-a")
			ended := func() bool { return session(t, p, m.SessionID).Closed != "" }
			for began := time.Now(); time.Since(began) < c.typing && !ended(); time.Sleep(80 * time.Millisecond) {
				_ = conn.Write(short(t), websocket.MessageBinary, []byte("x"))
			}
			if c.reason == wire.EndSessionIdle && ended() {
				t.Fatal("a session in use ended")
			}
			wait.For(t, "its time is over", ended)
			wantEnded(t, p, conn, m, left, c.reason)
		})
	}
}
