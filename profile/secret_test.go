package profile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func TestReadSecret(t *testing.T) {
	const canary = "canary-9f2c"
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		want       string // part of the error; empty: the file is accepted
	}{
		{"owner only", canary + "\n", 0o600, ""},
		{"read only", canary, 0o400, ""},
		{"windows line end", canary + "\r\n", 0o600, ""},
		{"group", canary, 0o640, "is open to others (mode 0640); run: chmod 600"},
		{"others", canary, 0o604, "is open to others (mode 0604)"},
		{"group may write", canary, 0o620, "is open to others (mode 0620)"},
		{"empty", " \n", 0o600, "is empty"},
		{"two lines", canary + "\n" + canary, 0o600, "holds more than one line"},
		{"huge", strings.Repeat(canary, 5000), 0o600, "is longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil { // the umask does not apply
				t.Fatal(err)
			}
			s, err := ReadSecret(t.Context(), path)
			if c.want == "" {
				if err != nil || s.Reveal() != canary {
					t.Fatalf("got %q, %v", s.Reveal(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "canary") || !s.IsZero() {
				t.Fatalf("a refused secret got out: %v", err)
			}
		})
	}
	if _, err := ReadSecret(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := ReadSecret(t.Context(), filepath.Join(t.TempDir(), "none")); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("a missing file: %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err
		}
		if _, isPath := err.(*os.PathError); isPath {
			return err
		}
		err = u.Unwrap()
	}
}

func TestRunSecret(t *testing.T) {
	tier.NeedsHost(t)
	const canary = "canary-9f2c"
	for name, c := range map[string]struct {
		script, want string
	}{
		"printed":          {"echo " + canary, ""},
		"nothing to read":  {"read x; echo " + canary, ""},
		"failed":           {"echo " + canary + "; echo " + canary + " >&2; exit 3", "exit status 3"},
		"killed":           {"kill -9 $$", "signal: killed"},
		"silent":           {"true", "is empty"},
		"two lines":        {"echo " + canary + "; echo " + canary, "holds more than one line"},
		"endless":          {"while :; do echo " + canary + "; done", "is longer than"},
		"no such program ": {"", "executable file not found"},
	} {
		argv := []string{"sh", "-c", c.script}
		if c.script == "" {
			argv = []string{"no-such-program-" + strings.Repeat("x", 8)}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		s, err := RunSecret(ctx, argv)
		cancel()
		if c.want == "" {
			if err != nil || s.Reveal() != canary {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) || !s.IsZero() {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunSecret(ctx, []string{"sleep", "60"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
