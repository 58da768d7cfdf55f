package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// TestReplayKeepsOwnHops: a hop that only another tool's profile has is neither dropped nor counted as a pass, wherever
// it is in the report.
func TestReplayKeepsOwnHops(t *testing.T) {
	const own = diag.HopID("x.vpn")
	for status, want := range map[diag.Status]diag.Outcome{
		diag.StatusPass: diag.OutcomePass, diag.StatusWarn: diag.OutcomeWarn, diag.StatusFail: diag.OutcomeFail,
		diag.StatusInconclusive: diag.OutcomeInconclusive, diag.StatusSkipped: diag.OutcomePass,
	} {
		for _, first := range []bool{false, true} {
			r := walkWith(t, nil)
			h := diag.HopResult{ID: own, Title: "the VPN is up", Layer: diag.LayerRuntime,
				Finding: diag.Finding{Status: status, Text: "the tunnel is down", Because: "nobody answered"}}
			r.Facts = append(r.Facts, diag.Fact{ID: "x.vpn/ping", Vantage: Node, DurationMS: 1})
			if r.Hops = append(r.Hops, h); first {
				r.Hops = append([]diag.HopResult{h}, r.Hops[:len(r.Hops)-1]...)
			}
			for range 2 { // and the replay of a replay
				again, err := Replay(r)
				if err != nil {
					t.Fatal(err)
				}
				got := hopNamed(again.Hops, own)
				if again.Verdict.Outcome != want || got.Status != status || got.Title != h.Title {
					t.Errorf("%s: outcome %s, and the hop is %+v", status, again.Verdict.Outcome, *got)
				}
				if b := again.Verdict.Blame; (b != nil) != (status == diag.StatusFail) || (b != nil && b.Hop != own) {
					t.Errorf("%s: the blame is %+v", status, b)
				}
				var page strings.Builder
				for _, f := range []render.Format{render.Table, render.Wide, render.Short, render.JSON} {
					if err := render.Report(&page, again, render.Options{Format: f}); err != nil {
						t.Error(err)
					}
				}
				r = again
			}
		}
	}
}
