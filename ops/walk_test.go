package ops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestWalkOfAnOwnHop: a session walks the chain of its site, and can walk a hop that only this chain has.
func TestWalkOfAnOwnHop(t *testing.T) {
	tier.NeedsHost(t)
	platform, end := aPlatform()
	defer end()
	hop := hop.Hop{
		ID: "x.example", Budget: 5 * time.Second,
		Meaning: hop.Meaning{Title: "the example service answers", Layer: diag.LayerRuntime},
		Steps: []hop.Step{{
			Name: "health", From: hop.Operator, Timeout: time.Second,
			Ask: func(e *hop.Env, _ *hop.Case) diag.Request {
				return diag.Request{Op: diag.OpHTTP, Target: e.Profile.APIBase + "/health"}
			},
		}},
		Judge: func(*hop.Case) []diag.Finding { return nil },
		Pass:  func(*hop.Case) string { return "the example service answers" },
	}
	site := ops.New(ops.Site{Profile: platform.Profile, Secrets: platform.Secrets, Hops: hops.WithOwn(hop)})
	r := site.Node("n1", "").Walk(t.Context(), ops.WalkOptions{Only: []diag.HopID{hop.ID}}, nil)
	for _, h := range r.Hops {
		if want := h.ID == hop.ID; (h.Status == diag.StatusPass) != want || (h.Status == diag.StatusSkipped) == want {
			t.Errorf("%s: %s %s", h.ID, h.Status, h.Because)
		}
	}
	if got := r.Hops[len(r.Hops)-1].ID; got != hop.ID || !strings.HasPrefix(r.Facts[0].ID, string(hop.ID)) {
		t.Errorf("the last hop is %s, and the first fact %s", got, r.Facts[0].ID)
	}
}
