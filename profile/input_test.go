package profile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFilesThatNeverEnd: a pipe that nobody writes to and a device without an end are refused in words, for profiles and
// for secrets; a pipe with a writer is read, also where the writer comes later.
func TestFilesThatNeverEnd(t *testing.T) {
	was := inputPatience
	inputPatience = 300 * time.Millisecond
	t.Cleanup(func() { inputPatience = was })
	pipe := filepath.Join(t.TempDir(), "p.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	profileOf := func(path string) error { _, _, err := ReadFile(path); return err }
	secretOf := func(path string) error { _, err := ReadSecret(path); return err }
	caOf := func(path string) error { _, err := ReadCA(path); return err }
	for name, c := range map[string]struct {
		read func(string) error
		path string
		says string
	}{
		"profile from a pipe":        {profileOf, pipe, "nobody wrote to it"},
		"secret from a pipe":         {secretOf, pipe, "nobody wrote to it"},
		"certificates from a pipe":   {caOf, pipe, "nobody wrote to it"},
		"certificates from a device": {caOf, "/dev/zero", "larger than"},
		"profile from a device":      {profileOf, "/dev/zero", "larger than"},
	} {
		done := make(chan error, 1)
		go func() { done <- c.read(c.path) }()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: it is still read after 5 s", name)
		}
	}
	if t.Failed() {
		return
	}
	inputPatience = 10 * time.Second
	go func() {
		time.Sleep(100 * time.Millisecond)
		_ = os.WriteFile(pipe, []byte("api_base: https://api.example\n"), 0)
	}()
	if p, _, err := ReadFile(pipe); err != nil || p.APIBase != "https://api.example" {
		t.Errorf("a pipe with a writer: %v, %q", err, p.APIBase)
	}
}
