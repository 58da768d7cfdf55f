package vantage

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestRemovalFollowsNoLink: in a folder where any user can create entries, another user's link must not redirect the
// removal, which may run as root.
func TestRemovalFollowsNoLink(t *testing.T) {
	tier.NeedsHost(t)
	runtime, elsewhere := t.TempDir(), t.TempDir()
	kept := filepath.Join(elsewhere, "gpuaas-agent-linux-amd64")
	if err := os.WriteFile(kept, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(runtime, "gpuaasctl")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	// The first and the last folder are the host's own; the test replaces only the one in between.
	script := strings.NewReplacer(pushDir, filepath.Join(runtime, "none"), "/dev/shm/gpuaasctl-$u",
		filepath.Join(runtime, "neither")).Replace(removeScript)
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + runtime}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), sentinel+" removed") {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the removal followed a link: %v", err)
	}
	// A folder that this login owns is emptied and removed.
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(link, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(link, "gpuaas-agent-linux-amd64"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("sh", "-c", script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + runtime}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(link); err == nil {
		t.Error("its own folder is still there")
	}
}
