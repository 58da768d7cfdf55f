package platform_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

const correlationID = "walk-0123456789"

type minted struct {
	Token     string `json:"token"`
	SessionID string `json:"session_id"`
	URL       string `json:"url"`
}

type sessionRead struct {
	Browser string `json:"browser_connected_at"`
	Stream  string `json:"node_stream_connected_at"`
	PTY     string `json:"pty_ready_at"`
	Closed  string `json:"closed_at"`
	Reason  string `json:"close_reason"`
	By      string `json:"closed_by"`
	Code    int    `json:"close_code"`
	Detail  string `json:"close_detail"`
	Answers string `json:"node_answers"`
	Task    struct {
		ID string `json:"id"`
	} `json:"task"`
}

func mint(t *testing.T, p *platformtest.Platform) minted {
	t.Helper()
	var m minted
	status, _ := p.Do(http.MethodPost, "/v1/allocations/"+platformtest.AllocationID+"/terminal-token", nil, &m,
		wire.HeaderCorrelationID, correlationID)
	if status != http.StatusOK {
		t.Fatalf("mint: status %d", status)
	}
	return m
}

func session(t *testing.T, p *platformtest.Platform, id string) sessionRead {
	t.Helper()
	var s sessionRead
	if status, _ := p.Do(http.MethodGet, "/v1/admin/terminal/sessions/"+id, nil, &s); status != http.StatusOK {
		t.Fatalf("session: status %d", status)
	}
	return s
}

func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func attach(t *testing.T, p *platformtest.Platform, url, token string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	conn, resp, err := websocket.Dial(short(t), url,
		&websocket.DialOptions{HTTPClient: p.Client(),
			Subprotocols: []string{wire.TerminalSubprotocol, wire.BearerPrefix + token}})
	if err == nil {
		t.Cleanup(func() { conn.CloseNow() })
	}
	return conn, resp, err
}

func readFrame(t *testing.T, conn *websocket.Conn) wire.Frame {
	t.Helper()
	kind, b, err := conn.Read(short(t))
	if err != nil || kind != websocket.MessageText {
		t.Fatalf("read frame: kind %v, %v", kind, err)
	}
	var f wire.Frame
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func sendFrame(t *testing.T, conn *websocket.Conn, f wire.Frame) {
	t.Helper()
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(short(t), websocket.MessageText, b); err != nil {
		t.Errorf("send frame: %v", err)
	}
}

// impatient waits for a node's stream for a second: for tests in which none comes.
func impatient(o *platformtest.Options) {
	o.Config = func(c *platform.Config) { c.Policy.NodeStreamTimeout = 1 }
}

// withRedis starts a platform with a session store.
func withRedis(t *testing.T, edit ...func(*platformtest.Options)) (*miniredis.Miniredis, *platformtest.Platform) {
	t.Helper()
	tier.NeedsHost(t)
	redis := miniredis.RunT(t)
	o := platformtest.Options{Redis: redis.Addr()}
	for _, e := range edit {
		e(&o)
	}
	return redis, platformtest.StartPlatform(t, o)
}

func TestTerminalEndToEnd(t *testing.T) {
	redis, p := withRedis(t)
	node := fakeNode{t, p, p.Enroll(platformtest.NodeID)}
	left := make(chan websocket.StatusCode, 1)
	node.run(func(ctx context.Context, task wire.Task) wire.TaskResult {
		var open wire.TerminalOpenPayload
		if task.Type != wire.TaskTerminalOpen || json.Unmarshal(task.Payload, &open) != nil {
			t.Errorf("task %s with payload %s", task.Type, task.Payload)
		}
		if open.OSUser != "tenant" || open.AllocationID != platformtest.AllocationID || task.CorrelationID != correlationID {
			t.Errorf("terminal.open %+v under %s", open, task.CorrelationID)
		}
		conn, _, err := node.dialStream(ctx, open.SessionID)
		if err != nil {
			t.Errorf("node stream: %v", err)
			return wire.TaskResult{Status: wire.TaskFailed}
		}
		sendFrame(t, conn, wire.Frame{Type: "ready", CorrelationID: task.CorrelationID})
		go echo(conn, left)
		return completed()
	})

	m := mint(t, p)
	if want := strings.Replace(p.TerminalBase, "https", "wss", 1) + "/v1/terminal/" + m.SessionID; m.URL != want {
		t.Fatalf("url %s, want %s", m.URL, want)
	}
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	if conn.Subprotocol() != wire.TerminalSubprotocol {
		t.Fatalf("subprotocol %q", conn.Subprotocol())
	}
	if f := readFrame(t, conn); f.Type != "ready" || f.CorrelationID != correlationID {
		t.Fatalf("first frame %+v", f)
	}
	if !redis.Exists("gpuaas:terminal:session:" + m.SessionID) {
		t.Fatal("the session is not bound in Redis")
	}
	if err := conn.Write(short(t), websocket.MessageBinary, []byte("echo $((6*7))\n")); err != nil {
		t.Fatal(err)
	}
	kind, b, err := conn.Read(short(t))
	if err != nil || kind != websocket.MessageBinary || string(b) != "echo $((6*7))\n" {
		t.Fatalf("read %v %q %v", kind, b, err)
	}
	if s := session(t, p, m.SessionID); s.Browser == "" || s.Stream == "" || s.PTY == "" || s.Closed != "" {
		t.Fatalf("session in progress: %+v", s)
	}
	_, resp, err := attach(t, p, m.URL, m.Token)
	if err == nil || resp.StatusCode != http.StatusConflict {
		t.Fatalf("a second attach: %v", err)
	}
	if err := conn.Close(websocket.StatusNormalClosure, "done"); err != nil {
		t.Fatal(err)
	}
	if code := <-left; code != websocket.StatusNormalClosure {
		t.Fatalf("the node's leg was closed with %d", code)
	}
	wait.For(t, "session closed, binding gone, task completed", func() bool {
		s := session(t, p, m.SessionID)
		var task struct{ Status string }
		p.Do(http.MethodGet, "/v1/admin/tasks/"+s.Task.ID, nil, &task)
		return s.Reason == "browser_closed" && s.Closed != "" && !redis.Exists("gpuaas:terminal:session:"+m.SessionID) &&
			task.Status == wire.TaskCompleted
	})
	wantEvidence(t, p, correlationID, "terminal.token_minted", "terminal.browser_connected", "task.queued",
		"task.dispatched", "terminal.node_stream_connected", "terminal.pty_ready", "task.completed", "terminal.closed")
}

// echo sends back what it receives, and reports the code with which it was closed.
func echo(conn *websocket.Conn, left chan<- websocket.StatusCode) {
	for {
		kind, b, err := conn.Read(context.Background())
		if err != nil {
			left <- websocket.CloseStatus(err)
			return
		}
		if conn.Write(context.Background(), kind, b) != nil {
			return
		}
	}
}

// wantEvidence checks that each kind was recorded under the id, and that the answer is in time order.
func wantEvidence(t *testing.T, p *platformtest.Platform, id string, kinds ...string) {
	t.Helper()
	var got struct {
		Items []struct{ At, Kind string }
	}
	p.Do(http.MethodGet, "/v1/admin/evidence?correlation_id="+id, nil, &got)
	have := map[string]bool{}
	for i, e := range got.Items {
		have[e.Kind] = true
		if i > 0 && e.At < got.Items[i-1].At {
			t.Errorf("evidence %d is older than the one before", i)
		}
	}
	for _, k := range kinds {
		if !have[k] {
			t.Errorf("no evidence %s in %+v", k, got.Items)
		}
	}
}
