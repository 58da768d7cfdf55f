package probe

import (
	"context"
	"net/http"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

func TestFactTellsTheExpandedTarget(t *testing.T) {
	kit.NoLeaks(t)
	ca := kit.NewAuthority(t, "ca")
	s := kit.Site(t, ca.Leaf(t, kit.Leaf{}),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kit.Page(200, kit.JSONType, r.URL.Path)(w, r)
		}))
	p := &Prober{}
	t.Cleanup(p.Close)
	p.Host.Agent.Env = map[string]string{"GPUAAS_API_URL": s.URL}
	req := diag.Request{Op: diag.OpHTTP, Target: "${GPUAAS_API_URL}/healthz", CAInline: ca.PEM}
	f := p.Run(context.Background(), req)
	if !f.Passed() || f.Target != s.URL+"/healthz" || f.Request.Target != req.Target {
		t.Errorf("%s: target %q of %q", f.Failure, f.Target, f.Request.Target)
	}
	req.Target = s.URL + "/healthz"
	if f := p.Run(context.Background(), req); f.Target != "" {
		t.Errorf("nothing was expanded, and yet %q", f.Target)
	}
}
