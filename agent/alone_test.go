package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
)

// TestASecondAgentWaits: a second agent does nothing until the first has ended, and names the process that it
// waits for.
func TestASecondAgentWaits(t *testing.T) {
	log := &logtest.Log{}
	cfg := Config{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil))}
	release, err := LockNode(t.Context(), cfg)
	must(t, err)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := LockNode(short, cfg); err == nil {
		t.Error("two agents")
	}
	if !strings.Contains(log.String(), "pid="+strconv.Itoa(os.Getpid())) {
		t.Errorf("it says %s", log)
	}
	release()
	release, err = LockNode(t.Context(), cfg)
	must(t, err)
	release()
}

// TestAloneWhereNothingCanBeWritten: a node without a writable disk still gets an agent, and no link is followed.
func TestAloneWhereNothingCanBeWritten(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	victim := filepath.Join(cfg.Dir, "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
	must(t, os.MkdirAll(filepath.Join(cfg.Dir, "state"), 0o755))
	must(t, os.Symlink(victim, filepath.Join(cfg.Dir, "state", fileAlone)))
	release, err := LockNode(t.Context(), cfg)
	must(t, err)
	release()
	if text, _ := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("the link was followed: %q", text)
	}
}
