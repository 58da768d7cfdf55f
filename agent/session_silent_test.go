package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/internal/testuser"
)

// TestSilentShellHoldsUpNoRelease: a tenant whose shell prints nothing does not make the release of its allocation
// wait, nor fail, by opening a terminal right before it.
func TestSilentShellHoldsUpNoRelease(t *testing.T) {
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
	dialSession(t, p)
	for end := time.Now().Add(10 * time.Second); runs(t, uid) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the tenant's shell does not run")
		}
	}
	release(t, p)
	began := time.Now()
	for ; ; time.Sleep(20 * time.Millisecond) {
		a := stateOf(p)
		if a.State == "released" {
			break
		}
		if a.State != "releasing" || time.Since(began) > 30*time.Second {
			t.Fatalf("%s after the release: %+v", time.Since(began), a)
		}
	}
	if took := time.Since(began); took > 8*time.Second { // the agent waits ten for a shell's first word
		t.Errorf("the release took %s", took)
	}
	if n := runs(t, uid); n != 0 {
		t.Errorf("the former tenant runs %d processes", n)
	}
}
