package agent_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// TestSilentShellHoldsUpNoRelease: a tenant whose shell prints nothing neither delays the release of its
// allocation nor makes it fail, by opening a terminal right before it. If a release waited for the shell's first
// output, the terminal's task would take as long as the agent waits for that, every time; on a slow machine that
// happens occasionally.
func TestSilentShellHoldsUpNoRelease(t *testing.T) {
	const firstWordsWithin = 10 * time.Second // of agent/terminal
	for range 3 {
		var took time.Duration
		t.Run("release", func(t *testing.T) { took = releasedWhileSilent(t) })
		if took < firstWordsWithin {
			return
		}
		t.Logf("terminal.open took %s", took)
	}
	t.Error("the release waited for the shell's first words")
}

// releasedWhileSilent releases an allocation whose shell has just been started and prints nothing, and returns how
// long the agent worked on that terminal's task.
func releasedWhileSilent(t *testing.T) time.Duration {
	t.Helper()
	tier.NeedsHost(t)
	p, uid := tenantPlatform(t)
	entry, err := exec.Command("getent", "passwd", "--", testuser.Name).Output()
	if err != nil {
		t.Fatal(err)
	}
	home := strings.Split(string(entry), ":")[5]
	for dir := home; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) { // the tenant reads its own start-up file
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte("exec sleep 600\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	until := func(what string, is func() bool) {
		t.Helper()
		if !wait.Until(t, is) {
			t.Fatalf("%s: not in time; %+v", what, stateOf(p))
		}
	}
	id, _ := dialSession(t, p)
	until("the tenant's shell runs", func() bool { return runs(t, uid) > 0 })
	release(t, p)
	until("the allocation is released", func() bool {
		a := stateOf(p)
		if a.State != "released" && a.State != "releasing" {
			t.Fatalf("after the release: %+v", a)
		}
		return a.State == "released"
	})
	if n := runs(t, uid); n != 0 {
		t.Errorf("the former tenant runs %d processes", n)
	}
	var row struct {
		Task struct {
			Result      wire.TaskResult `json:"result"`
			CompletedAt string          `json:"completed_at"`
		} `json:"task"`
	}
	until("terminal.open is answered", func() bool {
		p.Do(http.MethodGet, "/v1/admin/terminal/sessions/"+id, nil, &row)
		return row.Task.CompletedAt != ""
	})
	res := row.Task.Result
	if res.Error == nil {
		t.Error("a terminal of a released allocation was opened")
	}
	return res.FinishedAt.Sub(res.StartedAt)
}
