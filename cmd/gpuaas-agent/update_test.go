package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// unit restarts the installed program whenever it ends, like Restart=always.
type unit struct {
	t    *testing.T
	bin  string
	dir  string
	env  []string
	mu   sync.Mutex // guards cmd and over
	cmd  *exec.Cmd
	over bool
	done chan struct{}
}

func startUnit(t *testing.T, bin, dir string, env []string) *unit {
	tier.NeedsHost(t)
	u := &unit{t: t, bin: bin, dir: dir, env: env, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		for u.once() {
			time.Sleep(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		u.mu.Lock()
		u.over = true
		_ = u.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		u.mu.Unlock()
		<-u.done
	})
	return u
}

func (u *unit) once() bool {
	u.mu.Lock()
	if u.over {
		u.mu.Unlock()
		return false
	}
	u.cmd = exec.Command(u.bin, "run", "--dir", u.dir,
		"--record-dir", filepath.Join(u.dir, "diag"), "--record-mirror", filepath.Join(u.dir, "mirror"))
	u.cmd.Env = u.env
	err := u.cmd.Start()
	u.mu.Unlock()
	if err != nil {
		u.t.Errorf("start: %v", err)
		return false
	}
	_ = u.cmd.Wait() // being killed, or exiting with 1, is under test
	return true
}

// kill kills the running process.
func (u *unit) kill() {
	u.mu.Lock()
	defer u.mu.Unlock()
	_ = u.cmd.Process.Kill() // it may be about to exec the next build
}

// program returns the build of the unit's current process.
func (u *unit) program() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	path, _ := os.Readlink("/proc/" + strconv.Itoa(u.cmd.Process.Pid) + "/exe")
	return path
}

// artifact puts a program into the platform's folder and returns its digest.
func artifact(t *testing.T, dir string, text []byte) string {
	t.Helper()
	sum := sha256.Sum256(text)
	sha := hex.EncodeToString(sum[:])
	if err := os.WriteFile(filepath.Join(dir, sha), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return sha
}

// rollout orders an update, calls meanwhile, and waits for the end.
func rollout(t *testing.T, p *platformtest.Platform, order map[string]any, meanwhile func()) wire.Rollout {
	t.Helper()
	var made struct {
		ID    string         `json:"id"`
		Error wire.ErrorInfo `json:"error"`
	}
	if status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/rollouts", order,
		&made); status != http.StatusCreated {
		return wire.Rollout{State: made.Error.Code}
	}
	meanwhile()
	var ro wire.Rollout
	if !wait.Until(t, func() bool {
		p.Do(http.MethodGet, "/v1/admin/rollouts/"+made.ID, nil, &ro)
		return wire.RolloutFinal(ro.State)
	}) {
		t.Fatalf("it does not end: %+v", ro)
	}
	return ro
}

// TestUpdatesItself runs the real program against a real platform: it becomes another build, survives being killed
// in between, reverts a build that crashes, and does not try that again.
func TestUpdatesItself(t *testing.T) {
	tier.NeedsHost(t)
	if testing.Short() {
		t.Skip("skipped: builds a binary")
	}
	// the platform accepts no heartbeat without it
	if id, err := os.ReadFile("/etc/machine-id"); err != nil || len(id) < 2 {
		t.Skip("skipped: needs /etc/machine-id, which a booted machine has")
	}
	bin := build(t)
	text, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := os.ReadFile("/bin/false")
	if err != nil {
		t.Skip("skipped: no /bin/false to stand for a build that ends at once")
	}
	packages := t.TempDir()
	second, third := artifact(t, packages, append(text, "second"...)), artifact(t, packages, append(text, "third"...))
	broken := artifact(t, packages, dead)
	p := platformtest.StartPlatform(t, platformtest.Options{Config: func(c *platform.Config) { c.Artifacts = packages }})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca-bundle.crt"), []byte(p.CAPEM), 0o600); err != nil {
		t.Fatal(err)
	}
	u := startUnit(t, bin, dir, append(os.Environ(), "GPUAAS_API_URL="+p.NodeAPIURL, "GPUAAS_NODE_ID="+platformtest.NodeID,
		"GPUAAS_ENROLLMENT_TOKEN="+p.EnrollmentToken(platformtest.NodeID).Reveal(),
		"GPUAAS_TASK_SIGNING_PUBKEYS="+p.TaskPubkeys, "GPUAAS_HEARTBEAT_INTERVAL=300ms", "GPUAAS_TASK_WAIT=1s"))
	order := func(version, sha string) map[string]any {
		return map[string]any{"version": version, "sha256": sha, "soak_seconds": 2, "refresh_token": true}
	}
	if got := rollout(t, p, order("second", second), func() {}); got.State != wire.RolloutConverged ||
		got.Token != "refreshed" {
		t.Fatalf("%+v", got)
	}
	if !strings.Contains(u.program(), second) {
		t.Errorf("it runs %s", u.program())
	}
	if env, err := os.ReadFile(filepath.Join(dir, "agent.env")); err != nil ||
		!strings.Contains(string(env), "GPUAAS_ENROLLMENT_TOKEN="+wire.TokenPrefix) {
		t.Errorf("the refreshed token is not kept: %v", err)
	}
	if got := rollout(t, p, order("third", third), func() {
		for _, wait := range []time.Duration{40 * time.Millisecond, 700 * time.Millisecond} {
			time.Sleep(wait)
			u.kill()
		}
	}); got.State != wire.RolloutConverged {
		t.Fatalf("killed on the way: %+v", got)
	}
	if got := rollout(t, p, order("broken", broken), func() {}); got.State != wire.RolloutReverted || got.Attempts != 3 {
		t.Errorf("a build that ends at once: %+v", got)
	}
	if !strings.Contains(u.program(), third) {
		t.Errorf("after going back it runs %s", u.program())
	}
	if got := rollout(t, p, order("broken", broken), func() {}); got.State != "version_skipped" {
		t.Errorf("once more: %+v", got)
	}
}
