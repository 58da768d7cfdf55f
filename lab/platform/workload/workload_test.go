package workload_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/lab/platform/workload"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestWorkload requests the workload like a walk: the page, the names of the headers and never their values, the
// WebSocket.
func TestWorkload(t *testing.T) {
	tier.NeedsHost(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(workload.Handler(dir))
	t.Cleanup(s.Close)
	p := &probe.Prober{Vantage: "operator"}
	t.Cleanup(p.Close)
	ask := func(op diag.Op, path string) diag.Fact {
		return p.Run(t.Context(), diag.Request{ID: path, Op: op, Target: s.URL + path, TimeoutMS: 30_000,
			Header:  map[string]string{"X-Forwarded-User": "canary"},
			Extract: map[string]string{"app.header_names": "header_names"}})
	}
	if f := ask(diag.OpHTTP, "/"); !f.Passed() || f.HTTP.Status != 200 {
		t.Errorf("page: %s %+v", f.Failure, f.HTTP)
	}
	if f := ask(diag.OpWS, workload.PathWebSocket); !f.Passed() || !f.WS.Upgraded {
		t.Errorf("WebSocket: %s %s %+v", f.Failure, f.Detail, f.WS)
	}
	f := ask(diag.OpHTTP, workload.PathHeaders)
	names := f.HTTP.Fields["app.header_names"]
	if !f.Passed() || !strings.Contains(names, `"X-Forwarded-User"`) || !strings.Contains(names, `"Host"`) ||
		strings.Contains(names, "canary") {
		t.Errorf("headers: %s %q", f.Failure, names)
	}
	if f := ask(diag.OpWS, "/"); f.Failure != diag.WSUpgradeRejected {
		t.Errorf("an upgrade of the page: %s", f.Failure)
	}
}
