package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent"
	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// TestWithTheReferencePlatform runs the agent, configured only by its environment, against the real platform.
func TestWithTheReferencePlatform(t *testing.T) {
	tier.NeedsHost(t)
	testuser.Install(t)
	p := platformtest.StartPlatform(t, platformtest.Options{
		Redis: miniredis.RunT(t).Addr(),
		Nodes: []platform.SeedNode{{ID: platformtest.NodeID, Hostname: platformtest.NodeID}},
		Allocations: []platform.SeedAllocation{{ID: platformtest.AllocationID, NodeID: platformtest.NodeID, State: "active",
			OSUser: testuser.Name}},
	})
	startAgent(t, p)
	t.Run("noop", func(t *testing.T) {
		if got := roundtrip(t, p, wire.TaskNoop, map[string]any{"hold_ms": 20}); got != wire.TaskCompleted {
			t.Errorf("the task is %s", got)
		}
	})
	t.Run("heartbeat", func(t *testing.T) {
		// the platform accepts no heartbeat without it
		if id, err := os.ReadFile("/etc/machine-id"); err != nil || len(id) < 2 {
			t.Skip("skipped: needs /etc/machine-id, which a booted machine has")
		}
		var node struct {
			Agent struct {
				Version string `json:"version"`
				APIURL  string `json:"api_url"`
			} `json:"agent"`
			Cert struct {
				Serial string `json:"serial"`
			} `json:"cert"`
		}
		p.Do(http.MethodGet, "/v1/admin/nodes/"+platformtest.NodeID, nil, &node)
		if node.Agent.Version != "e2e" || node.Agent.APIURL != p.NodeAPIURL || node.Cert.Serial == "" {
			t.Errorf("read model %+v", node)
		}
	})
	t.Run("terminal", func(t *testing.T) { terminal(t, p) })
}

// startAgent runs an agent that has only a trust bundle and a token; it is stopped at the end of the test.
func startAgent(t *testing.T, p *platformtest.Platform) {
	t.Helper()
	env := map[string]string{
		agent.KeyAPIURL: p.NodeAPIURL, agent.KeyTerminalURL: p.NodeTerminalURL, agent.KeyNodeID: platformtest.NodeID,
		agent.KeyToken: p.EnrollmentToken(platformtest.NodeID).Reveal(), agent.KeyTaskPubkeys: p.TaskPubkeys,
		agent.KeyHeartbeatInterval: "500ms", agent.KeyTaskWait: "2s",
		agent.KeyTenantUIDMin: "0", // the test's login has this process's own id
	}
	cfg, err := agent.FromEnv(func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	cfg.Dir, cfg.Version = t.TempDir(), "e2e"
	if err := os.WriteFile(filepath.Join(cfg.Dir, "ca-bundle.crt"), []byte(p.CAPEM), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// roundtrip enqueues a task and waits for its final status.
func roundtrip(t *testing.T, p *platformtest.Platform, kind string, payload any) string {
	t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	if status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/tasks",
		map[string]any{"type": kind, "payload": payload, "ttl_seconds": 30}, &made); status != http.StatusCreated {
		t.Fatalf("enqueue: %d", status)
	}
	var task struct {
		Status string `json:"status"`
	}
	wait.For(t, "the task ends", func() bool {
		p.Do(http.MethodGet, "/v1/admin/tasks/"+made.ID, nil, &task)
		return task.Status != wire.TaskQueued && task.Status != wire.TaskDispatched
	})
	return task.Status
}

// terminal opens a session like a browser and computes something in it.
func terminal(t *testing.T, p *platformtest.Platform) {
	var minted struct {
		Token     string `json:"token"`
		SessionID string `json:"session_id"`
	}
	if status, _ := p.Do(http.MethodPost, "/v1/allocations/"+platformtest.AllocationID+"/terminal-token", nil,
		&minted); status/100 != 2 {
		t.Fatalf("mint: %d", status)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, p.TerminalBase+"/v1/terminal/"+minted.SessionID, &websocket.DialOptions{
		HTTPClient: p.Client(), Subprotocols: []string{wire.TerminalSubprotocol, wire.BearerPrefix + minted.Token}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	var seen bytes.Buffer
	for ready := false; !strings.Contains(seen.String(), "42-"+testuser.Name); {
		kind, data, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", seen.String(), err)
		}
		if kind == websocket.MessageBinary {
			seen.Write(data)
			continue
		}
		var f wire.Frame
		if err := json.Unmarshal(data, &f); err != nil || f.Type != "ready" || ready {
			t.Fatalf("frame %s, %v", data, err)
		}
		ready = true
		if err := c.Write(ctx, websocket.MessageBinary, []byte("echo $((6*7))-$USER\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("close: %v", err)
	}
}
