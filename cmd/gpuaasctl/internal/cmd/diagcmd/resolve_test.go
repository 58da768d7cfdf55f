package diagcmd

import (
	"os"
	"path/filepath"
	"testing"
)

// TestResolveIn: links on a dead machine's disk always resolve to a path on that disk.
func TestResolveIn(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "root")
	for _, dir := range []string{"data/gpuaas", "var"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"outside", "root/outside"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"absolute": "/data", "climbing": "../../../../outside", "var/lib": "/absolute/gpuaas", "loop": "loop",
		"out": base + "/outside", "dangling": "/nowhere", "relative": "data/./gpuaas/..",
	} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"/absolute": "data", "absolute/gpuaas/": "data/gpuaas", "climbing": "outside", "/var/lib": "data/gpuaas",
		"../../data": "data",
		"relative":   "data", "/": ".", "var/../data": "data", "loop": "", "out": "", "dangling": "", "nowhere": "",
	} {
		got, err := resolveIn(root, name)
		if want == "" {
			if err == nil {
				t.Errorf("%s: %s, want an error", name, got)
			}
			continue
		}
		if err != nil || got != filepath.Join(root, want) {
			t.Errorf("%s: %s %v, want %s", name, got, err, want)
		}
	}
	if _, err := resolveIn(filepath.Join(root, "nowhere"), "x"); err == nil {
		t.Error("a root that is not there")
	}
}
