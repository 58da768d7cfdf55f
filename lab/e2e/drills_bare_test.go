//go:build linux

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

// bare is a machine with an SSH server and nothing of a platform; bareProfile describes it and nothing else.
const (
	bare        = "bare-node-01"
	bareProfile = "lab-bare"
)

// TestBareDrills runs, on a machine without an agent, a platform or an API, every built-in drill that needs none of
// them. Each must pass and leave nothing behind, as those of TestDrills; a drill that needs more is refused, and no
// machine is asked. GPUAASCTL_DRILLS names the only ones that run.
func TestBareDrills(t *testing.T) {
	l := needLab(t)
	before := on(t, l, bare, snapshot)
	all, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if only := os.Getenv("GPUAASCTL_DRILLS"); only != "" && !slices.Contains(strings.Split(only, ","), s.Metadata.ID) {
			continue
		}
		t.Run(s.Metadata.ID, func(t *testing.T) {
			if s.Expect.MustStayGreen.WasGreen {
				runDrillsBy(t, bareProfile, bare, s.Metadata.ID, bare)
				return
			}
			out, stderr, code := try(t, time.Minute, "chaos", "plan", s.Metadata.ID, bare, "--profile", bareProfile)
			if code != 5 || !strings.Contains(string(out), "environment: it needs ") {
				t.Errorf("exit code %d\n%s%s", code, out, stderr)
			}
		})
	}
	if out, stderr, code := try(t, time.Minute, "chaos", "residue", "--profile", bareProfile); code != 0 {
		t.Errorf("residue: exit code %d\n%s%s", code, out, stderr)
	}
	asBefore(t, l, map[string]string{bare: before})
}
