//go:build linux

package inprocess

import (
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// TestPlatformEndsDuringTheWalk: a platform that ends in the middle of a walk is one fault of the platform, with the
// time of its last answer, whichever hop was next; what passed before stays so.
func TestPlatformEndsDuringTheWalk(t *testing.T) {
	t.Parallel()
	behind := []string{platformtest.AtAPI, platformtest.AtNodeAPI, platformtest.AtGateway, platformtest.AtNodeTerminal}
	all := append([]string{platformtest.AtAPIEdge, platformtest.AtTerminalEdge, platformtest.AtIngress,
		platformtest.AtAppEdge}, behind...)
	type world struct {
		name  string
		after string // HOP/STEP
		ends  []string
	}
	for _, tc := range []world{
		{"all after the token's check", "control_plane_access/auth", all},
		{"behind its edges after the allocation", "allocation_binding/allocation", behind},
		{"all after the allocation", "allocation_binding/allocation", all},
		{"behind its edges after the task was queued", "node_task_roundtrip/enqueue", behind},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := start(t, options{})
			j := w.prepare(t)
			end := sync.OnceFunc(func() { w.platform.Kill(tc.ends...) })
			passed := map[diag.HopID]bool{}
			j.observe = func(ev walk.Event) {
				if ev.Kind == walk.HopDone && ev.Result.Status == diag.StatusPass {
					passed[ev.Hop] = true
				}
				if ev.Kind == walk.StepDone && string(ev.Hop)+"/"+ev.Step.Name == tc.after {
					end()
				}
			}
			r := j.walk(t)
			v := r.Verdict
			if v.Blame == nil || v.Blame.Signal != diag.SigControlPlaneUnreachable || v.Proof != nil ||
				len(v.OtherFindings) > 0 || !strings.Contains(v.Blame.Text, "the platform answered this walk until ") {
				t.Errorf("\n%s", describe(r))
			}
			if v.Blame != nil && v.Blame.Hop != v.FirstFailedHop {
				t.Errorf("blame at %s, first failed %s\n%s", v.Blame.Hop, v.FirstFailedHop, describe(r))
			}
			for id := range passed {
				if h := resultOf(t, r, id); h.Status != diag.StatusPass {
					t.Errorf("%s had passed, and is %s: %s%s", id, h.Status, h.Text, h.Because)
				}
			}
			if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
				t.Errorf("replay: %v", err)
			}
		})
	}
}
