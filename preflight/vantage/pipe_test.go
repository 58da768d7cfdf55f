package vantage

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/profile"
)

// TestKnownHostsThatNeverEnd: a pipe in place of the file is refused before the walk, at once.
func TestKnownHostsThatNeverEnd(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "kh")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{pipe, "/dev/zero"} {
		done := make(chan error, 1)
		go func() { done <- CheckFiles(profile.SSH{KnownHosts: file}) }()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "ssh.known_hosts: "+file+" is no file") {
				t.Errorf("%s: %v", file, err)
			}
		case <-time.After(3 * time.Second):
			t.Fatalf("%s is still read after 3 s", file)
		}
	}
}
