package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// tenantPlatform is a platform with an agent whose allocation has a tenant's login.
func tenantPlatform(t *testing.T) (p *platformtest.Platform, uid uint32) {
	t.Helper()
	tier.NeedsHost(t)
	uid = testuser.InstallTenant(t)
	p = platformtest.StartPlatform(t, platformtest.Options{
		Redis: miniredis.RunT(t).Addr(),
		Nodes: []platform.SeedNode{{ID: platformtest.NodeID, Hostname: platformtest.NodeID}},
		Allocations: []platform.SeedAllocation{{ID: platformtest.AllocationID, NodeID: platformtest.NodeID, State: "active",
			OSUser: testuser.Name}},
	})
	startAgent(t, p)
	return p, uid
}

// shell opens a terminal like a browser, and returns when it is ready.
func shell(t *testing.T, p *platformtest.Platform) *websocket.Conn {
	t.Helper()
	_, c := openSession(t, p)
	return c
}

// openSession is shell, and also returns the session's id.
func openSession(t *testing.T, p *platformtest.Platform) (id string, c *websocket.Conn) {
	t.Helper()
	id, c = dialSession(t, p)
	if f := nextFrame(t, c); f.Type != "ready" {
		t.Fatalf("frame %+v", f)
	}
	return id, c
}

// dialSession mints a terminal and connects to it like a browser, without waiting for its shell.
func dialSession(t *testing.T, p *platformtest.Platform) (id string, c *websocket.Conn) {
	t.Helper()
	var minted struct {
		Token     string `json:"token"`
		SessionID string `json:"session_id"`
	}
	if status, _ := p.Do(http.MethodPost, "/v1/allocations/"+platformtest.AllocationID+"/terminal-token", nil,
		&minted); status != 200 {
		t.Fatalf("mint: %d", status)
	}
	c, _, err := websocket.Dial(t.Context(), p.TerminalBase+"/v1/terminal/"+minted.SessionID, &websocket.DialOptions{
		HTTPClient: p.Client(), Subprotocols: []string{wire.TerminalSubprotocol, wire.BearerPrefix + minted.Token}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	return minted.SessionID, c
}

// nextFrame reads up to the next text frame.
func nextFrame(t *testing.T, c *websocket.Conn) (f wire.Frame) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		kind, data, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if kind == websocket.MessageText {
			if err := json.Unmarshal(data, &f); err != nil {
				t.Fatal(err)
			}
			return f
		}
	}
}

// says types a command and reads until the output contains words.
func says(t *testing.T, c *websocket.Conn, command, words string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Write(ctx, websocket.MessageBinary, []byte(command+"\n")); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	for !strings.Contains(seen.String(), words) {
		_, data, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", seen.String(), err)
		}
		seen.Write(data)
	}
}

// runs counts the living processes of a user.
func runs(t *testing.T, uid uint32) (n int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		var st unix.Stat_t
		stat, err := os.ReadFile(path + "/stat")
		if unix.Stat(path, &st) == nil && st.Uid == uid && err == nil && !bytes.Contains(stat, []byte(") Z ")) {
			n++
		}
	}
	return n
}

type releasedAllocation struct{ State, Occupancy string }

func release(t *testing.T, p *platformtest.Platform) {
	t.Helper()
	if status, _ := p.Do(http.MethodPost, "/v1/allocations/"+platformtest.AllocationID+"/release",
		map[string]any{"reason": "done"}, nil); status != 200 {
		t.Fatalf("release: %d", status)
	}
}

func stateOf(p *platformtest.Platform) (a releasedAllocation) {
	p.Do(http.MethodGet, "/v1/allocations/"+platformtest.AllocationID, nil, &a)
	return a
}

// TestSecReleasedShell: once an allocation is released, nothing of its former tenant runs on the node: no shell,
// and no process that left the shell in any way that a tenant can.
func TestSecReleasedShell(t *testing.T) {
	p, uid := tenantPlatform(t)
	c := shell(t, p)
	says(t, c, "setsid sh -c 'setsid sleep 600 & exit' >/dev/null 2>&1 & echo one-$((1+1))", "one-2")
	says(t, c, "(trap '' HUP INT TERM; nohup sleep 600 >/dev/null 2>&1 & exit) & echo two-$((1+1))", "two-2")
	says(t, c, "(while :; do (sleep 0.05 &); sleep 0.01; done) >/dev/null 2>&1 & echo three-$((1+1))", "three-2")
	wait.For(t, "the tenant runs four processes", func() bool { return runs(t, uid) >= 4 })
	release(t, p)
	began := time.Now()
	if f := nextFrame(t, c); f.Type != "error" || f.Code != wire.EndAllocationReleased {
		t.Errorf("frame %+v", f)
	}
	_, _, err := c.Read(t.Context())
	if websocket.CloseStatus(err) != 4000 || !strings.Contains(err.Error(), wire.EndAllocationReleased) {
		t.Errorf("closed with %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the terminal went on for %s", took)
	}
	wait.For(t, "the allocation is released", func() bool {
		a := stateOf(p)
		if a.State != "released" && a.Occupancy != "cleanup" {
			t.Fatalf("before the node has cleaned up: %+v", a)
		}
		if a.State == "released" && a.Occupancy != "free" {
			t.Errorf("%+v", a)
		}
		return a.State == "released"
	})
	if n := runs(t, uid); n != 0 {
		t.Errorf("the place is free, and the former tenant runs %d processes", n)
	}
}

// TestReleaseOfASystemUser: a task to clean up root's processes ends nothing, and the slot is not reassigned.
func TestReleaseOfASystemUser(t *testing.T) {
	tier.NeedsHost(t)
	testuser.Install(t) // the agent's own ids: root's where the tests are root
	p := platformtest.StartPlatform(t, platformtest.Options{
		Redis: miniredis.RunT(t).Addr(),
		Nodes: []platform.SeedNode{{ID: platformtest.NodeID, Hostname: platformtest.NodeID}},
		Allocations: []platform.SeedAllocation{
			{ID: platformtest.AllocationID, NodeID: platformtest.NodeID, State: "active", OSUser: testuser.Name},
			{ID: "nobody-knows", NodeID: platformtest.NodeID, State: "active", OSUser: "no-such-login"},
		},
	})
	startAgent(t, p)
	for id, code := range map[string]string{platformtest.AllocationID: wire.CodeUserProtected,
		"nobody-knows": wire.CodeUserMissing} {
		p.Do(http.MethodPost, "/v1/allocations/"+id+"/release", map[string]any{"reason": "done"}, nil)
		var a releasedAllocation
		wait.For(t, "the release of "+id+" fails", func() bool {
			p.Do(http.MethodGet, "/v1/allocations/"+id, nil, &a)
			if a.Occupancy == "free" {
				t.Fatalf("%s: %+v", id, a)
			}
			return a.State == "release_failed"
		})
		var evidence json.RawMessage
		p.Do(http.MethodGet, "/v1/admin/evidence?allocation_id="+id, nil, &evidence)
		if !bytes.Contains(evidence, []byte(code)) {
			t.Errorf("the evidence of %s does not say %s: %s", id, code, evidence)
		}
	}
}

// TestDeniedNodeEndsItsShells: a node whose identity is denied has no shell a moment later, and its browsers get
// the reason.
func TestDeniedNodeEndsItsShells(t *testing.T) {
	for decision, reason := range map[string]string{"revoke": wire.EndNodeRevoked, "fence": wire.EndNodeFenced} {
		t.Run(decision, func(t *testing.T) {
			p, uid := tenantPlatform(t)
			c := shell(t, p)
			if n := runs(t, uid); n == 0 {
				t.Fatal("no shell runs")
			}
			url := fmt.Sprintf("/v1/admin/nodes/%s/%s", platformtest.NodeID, decision)
			if status, _ := p.Do(http.MethodPost, url, map[string]any{"reason": "r"}, nil); status != 200 {
				t.Fatalf("%s: %d", decision, status)
			}
			if f := nextFrame(t, c); f.Code != reason {
				t.Errorf("frame %+v", f)
			}
			wait.For(t, "the shell ends", func() bool { return runs(t, uid) == 0 })
		})
	}
}

// TestTerminalSaysWhatBoundsIt: the result of terminal.open names the session's unit, or why it has none.
func TestTerminalSaysWhatBoundsIt(t *testing.T) {
	p, _ := tenantPlatform(t)
	var row struct {
		Task struct {
			Result struct {
				Output wire.TerminalOpenResult `json:"output"`
			} `json:"result"`
			CompletedAt string `json:"completed_at"`
		} `json:"task"`
	}
	id, _ := openSession(t, p)
	wait.For(t, "terminal.open has an answer", func() bool {
		p.Do(http.MethodGet, "/v1/admin/terminal/sessions/"+id, nil, &row)
		return row.Task.CompletedAt != ""
	})
	out := row.Task.Result.Output
	if _, err := os.Lstat("/run/systemd/system"); err == nil {
		if !strings.HasPrefix(out.Unit, "gpuaas-session-") || out.Unconfined != "" {
			t.Errorf("%+v", out)
		}
		return
	}
	if out.Unit != "" || out.Unconfined != "systemd does not run this host" {
		t.Errorf("%+v", out)
	}
}
