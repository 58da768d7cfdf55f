package vantage

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/heaptest"
)

// TestExecNoteFlood: a node that sends notes without end is abandoned, and none of them is believed.
func TestExecNoteFlood(t *testing.T) {
	const ceiling = 64 << 20
	for name, note := range map[string]string{"short": "none", "long": "note " + strings.Repeat("x", 20_000),
		"exit": "exit code=0"} {
		t.Run(name, func(t *testing.T) {
			s := sshtest.Start(t, sshtest.Config{})
			cfg := configFor(t, s)
			cfg.Bare = true
			n := open(t, cfg)
			heaptest.Under(t, ceiling, func() {
				began := time.Now()
				a, err := n.Exec(within(t, time.Minute),
					Script{Text: `exec yes "` + sentinel + ` ` + note + `" >&2`, Within: time.Minute})
				if err == nil || !strings.Contains(err.Error(), "none is believed") || len(a.Notes) > 0 {
					t.Errorf("%d notes, %v", len(a.Notes), err)
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}
