//go:build linux

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/lab"
)

// rootOf opens a running machine's root folder; paths cannot escape from it.
func rootOf(l *lab.Lab, machine string) (*os.Root, error) {
	pid, err := l.Leader(machine)
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(fmt.Sprintf("/proc/%d/root", pid))
}

// readFile reads a file of a machine; path is below /.
func readFile(l *lab.Lab, machine, path string) ([]byte, error) {
	root, err := rootOf(l, machine)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.ReadFile(path[1:])
}

// writeFile replaces the content of a file of a machine in place, so that bind mounts over it stay.
func writeFile(t *testing.T, l *lab.Lab, machine, path string, data []byte, mode fs.FileMode) {
	t.Helper()
	root, err := rootOf(l, machine)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(path[1:]), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := root.WriteFile(path[1:], data, mode); err != nil {
		t.Fatal(err)
	}
	if err := root.Chmod(path[1:], mode); err != nil {
		t.Fatal(err)
	}
}
