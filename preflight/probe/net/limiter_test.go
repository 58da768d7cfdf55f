package net

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/limitertest"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// TestLimitersHaveOneWord: a limiter's refusal is one failure word, over HTTP and as the answer to an upgrade, at any
// status; similar answers of others are not.
func TestLimitersHaveOneWord(t *testing.T) {
	ca := kit.NewAuthority(t, "ca")
	ask := func(t *testing.T, a limitertest.Answer, op diag.Op) diag.Fact {
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), a)
		return run(t, diag.Request{Op: op, Target: s.URL, CAInline: ca.PEM, TimeoutMS: 60_000,
			Extract: map[string]string{"error.code": "error.code"}})
	}
	for _, a := range append(limitertest.Limiters(), limitertest.Others()...) {
		for _, op := range []diag.Op{diag.OpHTTP, diag.OpWS} {
			f := ask(t, a, op)
			if limited := f.Failure == diag.HTTPRateLimited; limited != (a.Want != diag.NoLimiter) || limited != f.Throttled() {
				t.Errorf("%s, %d by %s: %s in %s", a.Name, a.Status, op, f.Failure, f.Phase)
			}
			if page := string(a.Want); a.Want != diag.NoLimiter && a.Want != diag.LimiterRate && f.HTTP.Page != page {
				t.Errorf("%s, %d by %s: page %q", a.Name, a.Status, op, f.HTTP.Page)
			}
		}
	}
}
