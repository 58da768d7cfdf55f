package platform_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// clock is a time that tests move.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration // guarded by mu
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// envelope decodes the error of a failed request.
func envelope(t *testing.T, resp *http.Response) wire.ErrorInfo {
	t.Helper()
	if resp == nil {
		t.Fatal("no answer at all")
	}
	b, err := io.ReadAll(resp.Body)
	var e wire.ErrorBody
	if err != nil || json.Unmarshal(b, &e) != nil || e.Error.Code == "" {
		t.Fatalf("status %d: no envelope in %q (%v)", resp.StatusCode, b, err)
	}
	if e.Error.CorrelationID == "" || e.Error.CorrelationID != resp.Header.Get(wire.HeaderCorrelationID) {
		t.Errorf("correlation id %q in the envelope, %q in the header", e.Error.CorrelationID,
			resp.Header.Get(wire.HeaderCorrelationID))
	}
	return e.Error
}

// wantClose reads until the connection is closed and checks how.
func wantClose(t *testing.T, conn *websocket.Conn, code websocket.StatusCode, reason string) {
	t.Helper()
	_, _, err := conn.Read(short(t))
	var ce websocket.CloseError
	if !errors.As(err, &ce) || ce.Code != code || ce.Reason != reason {
		t.Fatalf("closed with %v, want %d %q", err, code, reason)
	}
}

func TestBrowserIsRefusedInWords(t *testing.T) {
	clk := &clock{}
	_, p := withRedis(t, func(o *platformtest.Options) { o.Now = clk.now })
	good := mint(t, p)
	expired := mint(t, p)
	dial := func(session string, protocols []string, header http.Header) *http.Response {
		conn, resp, err := websocket.Dial(short(t), p.TerminalBase+"/v1/terminal/"+session, &websocket.DialOptions{
			HTTPClient: p.Client(), Subprotocols: protocols, HTTPHeader: header})
		if err == nil {
			conn.CloseNow()
			t.Fatalf("session %s with %v was accepted", session, protocols)
		}
		return resp
	}
	for _, c := range []struct {
		name, session string
		protocols     []string
		header        http.Header
		status        int
		code          string
	}{
		{"unknown session", "ts-none", []string{wire.TerminalSubprotocol, "bearer.x"}, nil, 404, wire.CodeSessionNotFound},
		{"wrong token", good.SessionID, []string{wire.TerminalSubprotocol, "bearer.wrong"}, nil, 401, "token_invalid"},
		{"token of another session", good.SessionID, []string{wire.TerminalSubprotocol, "bearer." + expired.Token}, nil, 401,
			"token_invalid"},
		{"no token", good.SessionID, []string{wire.TerminalSubprotocol}, nil, 401, "token_missing"},
		{"stripped subprotocol", good.SessionID, nil, nil, 400, "subprotocol_required"},
		{"foreign origin", good.SessionID, []string{wire.TerminalSubprotocol, "bearer." + good.Token},
			http.Header{"Origin": {"https://evil.example"}}, 403, "origin_not_allowed"},
	} {
		resp := dial(c.session, c.protocols, c.header)
		if e := envelope(t, resp); resp.StatusCode != c.status || e.Code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.name, resp.StatusCode, e.Code, c.status, c.code)
		}
	}
	clk.advance(time.Hour)
	resp := dial(expired.SessionID, []string{wire.TerminalSubprotocol, "bearer." + expired.Token}, nil)
	if e := envelope(t, resp); resp.StatusCode != 401 || e.Code != wire.DenyTokenExpired {
		t.Errorf("expired token: %d %s", resp.StatusCode, e.Code)
	}
	resp, err := p.Client().Get(p.TerminalBase + "/v1/terminal/" + good.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if e := envelope(t, resp); resp.StatusCode != http.StatusUpgradeRequired || e.Code != "upgrade_required" {
		t.Errorf("no upgrade: %d %s", resp.StatusCode, e.Code)
	}
	wantEvidence(t, p, correlationID, "terminal.browser_rejected")
}

func TestNodeStreamTimeoutIsSaid(t *testing.T) {
	t.Parallel()
	_, p := withRedis(t, impatient)
	p.Enroll(platformtest.NodeID) // and no agent waits for tasks
	m := mint(t, p)
	began := time.Now()
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	if f := readFrame(t, conn); f.Type != "error" || f.Code != wire.CodeNodeStreamTimeout ||
		f.CorrelationID != correlationID || f.Message == "" {
		t.Fatalf("frame %+v", f)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("said after %s, want 1s", took)
	}
	wantClose(t, conn, 4408, wire.CodeNodeStreamTimeout)
	s := session(t, p, m.SessionID)
	if s.Reason != wire.CodeNodeStreamTimeout || s.Stream != "" {
		t.Errorf("session %+v", s)
	}
	var task struct{ Status string }
	p.Do(http.MethodGet, "/v1/admin/tasks/"+s.Task.ID, nil, &task)
	if task.Status != wire.TaskExpired {
		t.Errorf("terminal.open nobody waits for is %s", task.Status)
	}
	if n := readNode(t, p); n.TerminalReadiness != "failed" {
		t.Errorf("terminal readiness %s", n.TerminalReadiness)
	}
}

// TestNodeSaysNothing: a stream that is not ready in time counts as no stream.
func TestNodeSaysNothing(t *testing.T) {
	t.Parallel()
	_, p := withRedis(t, func(o *platformtest.Options) {
		// the stream itself has to be opened within it
		o.Config = func(c *platform.Config) { c.Policy.NodeStreamTimeout = 10 }
	})
	node := fakeNode{t, p, p.Enroll(platformtest.NodeID)}
	node.stream(func(conn *websocket.Conn) {
		_, _, _ = conn.Read(short(t)) // until the gateway closes
	})
	m := mint(t, p)
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	if f := readFrame(t, conn); f.Type != "error" || f.Code != wire.CodeNodeStreamTimeout {
		t.Fatalf("frame %+v", f)
	}
	wantClose(t, conn, 4408, wire.CodeNodeStreamTimeout)
	if s := session(t, p, m.SessionID); s.Reason != wire.CodeNodeStreamTimeout || s.Stream == "" || s.PTY != "" {
		t.Errorf("session %+v", s)
	}
}

// TestNodeSpeaks: the node's output and the end of its stream reach the browser.
func TestNodeSpeaks(t *testing.T) {
	_, p := withRedis(t)
	node := fakeNode{t, p, p.Enroll(platformtest.NodeID)}
	behave := make(chan func(*websocket.Conn), 1)
	node.stream(func(conn *websocket.Conn) {
		(<-behave)(conn)
	})
	for _, c := range []struct {
		name   string
		node   func(*websocket.Conn)
		frame  wire.Frame // Type and Code are compared
		close  websocket.StatusCode
		reason string
		pty    bool
	}{
		{"user missing", func(c *websocket.Conn) {
			sendFrame(t, c, wire.Frame{Type: "error", Code: wire.CodeUserMissing, Message: "no such user"})
			c.Close(websocket.StatusNormalClosure, "")
		}, wire.Frame{Type: "error", Code: wire.CodeUserMissing}, 4502, wire.CodeUserMissing, false},
		{"stream cut", func(c *websocket.Conn) { c.CloseNow() },
			wire.Frame{Type: "error", Code: "node_stream_closed"}, 4502, "node_stream_closed", false},
		{"exit", func(c *websocket.Conn) {
			sendFrame(t, c, wire.Frame{Type: "ready"})
			sendFrame(t, c, wire.Frame{Type: "exit", ExitCode: new(int)})
			c.Close(websocket.StatusNormalClosure, "")
		}, wire.Frame{Type: "ready"}, 1000, "exit", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			behave <- c.node
			m := mint(t, p)
			conn, _, err := attach(t, p, m.URL, m.Token)
			if err != nil {
				t.Fatal(err)
			}
			if f := readFrame(t, conn); f.Type != c.frame.Type || f.Code != c.frame.Code {
				t.Fatalf("frame %+v, want %+v", f, c.frame)
			}
			if c.frame.Type == "ready" {
				if f := readFrame(t, conn); f.Type != "exit" || f.ExitCode == nil {
					t.Fatalf("frame %+v", f)
				}
			}
			wantClose(t, conn, c.close, c.reason)
			s := session(t, p, m.SessionID)
			if s.Reason != c.reason || s.Stream == "" || (s.PTY != "") != c.pty {
				t.Errorf("session %+v", s)
			}
		})
	}
}

func TestRedisDown(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	m := mint(t, p) // the mint does not touch Redis
	began := time.Now()
	_, resp, err := attach(t, p, m.URL, m.Token)
	if err == nil {
		t.Fatal("attached without a session store")
	}
	if e := envelope(t, resp); resp.StatusCode != http.StatusServiceUnavailable || e.Code != wire.CodeSessionStore {
		t.Fatalf("%d %s", resp.StatusCode, e.Code)
	}
	t.Logf("a dead Redis cost %s", time.Since(began))
	resp, err = p.Client().Get(p.TerminalBase + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("gateway health without Redis: %d", resp.StatusCode)
	}
	if s := session(t, p, m.SessionID); s.Browser != "" {
		t.Errorf("session %+v", s)
	}
}

func TestSessionCanBeAttachedOnceRedisIsBack(t *testing.T) {
	t.Parallel()
	redis, p := withRedis(t, impatient)
	m := mint(t, p)
	redis.SetError("LOADING Redis is loading the dataset in memory")
	if _, resp, err := attach(t, p, m.URL, m.Token); err == nil || envelope(t, resp).Code != wire.CodeSessionStore {
		t.Fatalf("attached without a session store: %v", err)
	}
	redis.SetError("")
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	if f := readFrame(t, conn); f.Code != wire.CodeNodeStreamTimeout {
		t.Fatalf("frame %+v", f)
	}
}

func TestNodeLegWithoutASession(t *testing.T) {
	_, p := withRedis(t, func(o *platformtest.Options) {
		o.Nodes = []platform.SeedNode{{ID: platformtest.NodeID}, {ID: "compute-node-02"}}
		o.Allocations = []platform.SeedAllocation{
			{ID: platformtest.AllocationID, NodeID: platformtest.NodeID, State: "active", OSUser: "tenant"},
		}
	})
	good, other := fakeNode{t, p, p.Enroll(platformtest.NodeID)}, fakeNode{t, p, p.Enroll("compute-node-02")}
	_, resp, err := good.dialStream(short(t), "ts-none")
	if err == nil {
		t.Fatal("a stream without a session")
	}
	if e := envelope(t, resp); resp.StatusCode != 404 || e.Code != wire.CodeSessionNotFound {
		t.Errorf("unknown session: %d %s", resp.StatusCode, e.Code)
	}
	m := mint(t, p)
	if _, _, err := attach(t, p, m.URL, m.Token); err != nil {
		t.Fatal(err)
	}
	_, resp, err = other.dialStream(short(t), m.SessionID)
	if err == nil {
		t.Fatal("another node joined the session")
	}
	if e := envelope(t, resp); resp.StatusCode != 403 || e.Code != wire.DenyNotNodeBound {
		t.Errorf("another node: %d %s", resp.StatusCode, e.Code)
	}
	p.SetIdentity(platformtest.NodeID, wire.DenyFenced)
	_, resp, err = good.dialStream(short(t), m.SessionID)
	if err == nil {
		t.Fatal("a fenced node joined")
	}
	if e := envelope(t, resp); resp.StatusCode != 403 || e.Code != wire.DenyFenced {
		t.Errorf("fenced node: %d %s", resp.StatusCode, e.Code)
	}
}

// TestNodeTerminalAlerts: the gateway terminates mutual TLS itself, so a bad certificate gets an alert and is
// recorded.
func TestNodeTerminalAlerts(t *testing.T) {
	tier.NeedsHost(t)
	_, p := withRedis(t)
	for _, c := range []struct {
		name, alert string
		cred        platformtest.Credential
	}{
		{"another CA", "unknown certificate authority",
			p.Issue(platformtest.NodeID, platformtest.IssueOptions{OtherCA: true})},
		{"expired", "expired certificate",
			p.Issue(platformtest.NodeID,
				platformtest.IssueOptions{NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})},
	} {
		_, _, err := fakeNode{t, p, c.cred}.dialStream(short(t), "ts-none")
		if err == nil || !strings.Contains(err.Error(), c.alert) {
			t.Errorf("%s: %v, want the alert %q", c.name, err, c.alert)
		}
	}
	_, err := p.Client().Get(p.NodeTerminalURL)
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("no certificate: %v", err)
	}
	// A peer that only connects is not a failure.
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.NodeTerminalURL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	type seen struct {
		HandshakeFailures []struct {
			Detail map[string]any `json:"detail"`
		} `json:"handshake_failures"`
	}
	wait.For(t, "three handshake failures in the trust answer", func() bool {
		var got seen
		p.Do(http.MethodGet, "/v1/admin/trust", nil, &got)
		claimed := 0
		for _, f := range got.HandshakeFailures {
			if f.Detail["claimed_subject"] == platformtest.NodeID {
				claimed++
			}
		}
		return len(got.HandshakeFailures) == 3 && claimed == 2
	})
}

func TestStopIsQuickAndSaid(t *testing.T) {
	_, p := withRedis(t, func(o *platformtest.Options) {
		o.Config = func(c *platform.Config) { c.Policy.TaskWait = 30 }
	})
	node := fakeNode{t, p, p.Enroll(platformtest.NodeID)}
	waiting := make(chan int, 1)
	go func() {
		status, _ := p.DoNode(node.cred, http.MethodGet, path(wire.PathTaskWait, platformtest.NodeID), nil, nil)
		waiting <- status
	}()
	wait.For(t, "the node waits", func() bool { return readNode(t, p).Agent.LastTaskWaitAt != "" })
	m := mint(t, p)
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	<-waiting // it got the terminal.open
	was := readNode(t, p).Agent.LastTaskWaitAt
	go func() {
		status, _ := p.DoNode(node.cred, http.MethodGet, path(wire.PathTaskWait, platformtest.NodeID), nil, nil)
		waiting <- status
	}()
	wait.For(t, "the node waits again", func() bool { return readNode(t, p).Agent.LastTaskWaitAt != was })
	stopped := make(chan time.Duration, 1)
	go func() {
		began := time.Now()
		if err := p.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		stopped <- time.Since(began)
	}()
	if f := readFrame(t, conn); f.Code != "gateway_shutdown" {
		t.Errorf("frame %+v", f)
	}
	wantClose(t, conn, websocket.StatusGoingAway, "gateway_shutdown")
	t.Logf("stop took %s", <-stopped)
	if status := <-waiting; status != http.StatusNoContent {
		t.Errorf("the long poll ended with %d", status)
	}
}

// TestAProbesStreamIsNoRejectedStream: a preflight requests an unknown session. Its 404 proves the path, and is
// not recorded as a failed terminal; the same refusal of an agent is.
func TestAProbesStreamIsNoRejectedStream(t *testing.T) {
	_, p := withRedis(t)
	n := fakeNode{t, p, p.Enroll(platformtest.NodeID)}
	for id, header := range map[string]http.Header{
		"walk-1":  {wire.HeaderCorrelationID: {"walk-1"}, wire.HeaderProbe: {"preflight"}},
		"agent-1": {wire.HeaderCorrelationID: {"agent-1"}},
	} {
		_, resp, err := websocket.Dial(short(t), p.NodeTerminalURL+path(wire.PathNodeTerminal, "", "{session_id}", "ts-none"),
			&websocket.DialOptions{
				HTTPClient: p.NodeClient(n.cred), Subprotocols: []string{wire.TerminalSubprotocol}, HTTPHeader: header})
		if err == nil || resp == nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %v", id, err)
		}
	}
	for id, want := range map[string]string{"walk-1": "terminal.node_stream_probed",
		"agent-1": "terminal.node_stream_rejected"} {
		wantEvidence(t, p, id, want)
		var got struct{ Items []struct{ Kind string } }
		if p.Do(http.MethodGet, "/v1/admin/evidence?correlation_id="+id, nil, &got); len(got.Items) != 1 {
			t.Errorf("%s: %+v", id, got.Items)
		}
	}
}

// TestARefusalIsOneRow: a browser sends no correlation id; its refusal is recorded once, under the session's.
func TestARefusalIsOneRow(t *testing.T) {
	t.Parallel()
	_, p := withRedis(t)
	m := mint(t, p)
	resp, err := p.Client().Get(p.TerminalBase + "/v1/terminal/" + m.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var rows []store.Evidence
	all, err := p.Store().Recent(t.Context(), store.BrowserRejected, 10)
	for _, e := range all {
		if e.SessionID == m.SessionID {
			rows = append(rows, e)
		}
	}
	if err != nil || len(rows) != 1 || rows[0].CorrelationID != correlationID {
		t.Errorf("%v, %+v", err, rows)
	}
}
