package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestABundleOnAFullDisk: applying a bundle needs no more space than the record's reserve.
func TestABundleOnAFullDisk(t *testing.T) {
	tier.NeedsHost(t)
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("skipped: mount: %v %s", err, out)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	from := bundleNode(t)
	must(t, os.CopyFS(filepath.Join(disk, "etc"), os.DirFS(from.Dir)))
	cfg := Config{Dir: filepath.Join(disk, "etc"), StateDir: filepath.Join(disk, "var")}
	(*fakePlatform)(nil).credentials(t, cfg.Dir, newAuthority(t, "node CA"), time.Now().Add(time.Hour))
	record := filepath.Join(cfg.StateDir, "diag")
	kept := recorder.Open(recorder.Config{Dir: record, Boot: "b"})
	defer kept.Close()
	fill, err := os.Create(filepath.Join(disk, "fill"))
	must(t, err)
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = fill.Write(make([]byte, size))
		}
	}
	must(t, fill.Close())

	ca := newAuthority(t, "new CA")
	if _, err := apply(t, cfg, newBundle(t, ca)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	cfg.Reserve = recorder.ReserveIn(record)
	done, err := apply(t, cfg, newBundle(t, ca))
	must(t, err)
	text, err := os.ReadFile(filepath.Join(cfg.Dir, "agent.env"))
	must(t, err)
	bundle, err := os.ReadFile(filepath.Join(cfg.Dir, fileBundle))
	must(t, err)
	was, err := os.ReadFile(filepath.Join(done.Undo, "agent.env"))
	if env := hostprobe.ParseEnvFile(string(text)); err != nil || !strings.Contains(env[KeyToken], bundleSecret) ||
		string(bundle) != ca.pem() || !strings.Contains(string(was), "https://old.test") {
		t.Errorf("not applied: %v, undo %q", err, was)
	}
	if left, err := os.ReadDir(filepath.Join(record, "reserve")); err != nil || len(left) < 6 {
		t.Errorf("the reserve is not taken back: %d files, %v", len(left), err)
	}
}
