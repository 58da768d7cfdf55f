package net

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// newProber returns a prober whose kept connections are closed after the test.
func newProber(t *testing.T) *Prober {
	t.Helper()
	p := &Prober{}
	t.Cleanup(p.Close)
	return p
}

func run(t *testing.T, req diag.Request) diag.Fact {
	t.Helper()
	return kit.Run(measure.WithPatience(context.Background(), 20), newProber(t), req)
}

// newRecorder returns the answer of a handler without a network.
func newRecorder(h http.Handler) *http.Response {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "https://edge.test/", nil)
	h.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp
}

// namesFrom gives a prober its own hosts, resolv.conf and nsswitch.conf.
func namesFrom(t *testing.T, p *Prober, hosts, resolv, nsswitch string) {
	t.Helper()
	dir := t.TempDir()
	p.names = nameFiles{hosts: filepath.Join(dir, "hosts"), resolv: filepath.Join(dir, "resolv.conf"),
		nsswitch: filepath.Join(dir, "nsswitch.conf"), behind: []string{}}
	for path, text := range map[string]string{p.names.hosts: hosts, p.names.resolv: resolv, p.names.nsswitch: nsswitch} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// hold holds a session as probe.Prober does.
func hold(ctx context.Context, req diag.Request, lines string, opened func()) diag.Fact {
	return measure.Run(ctx, req, func(ctx context.Context, req diag.Request, f *diag.Fact) {
		new(Prober).Hold(ctx, req, f, lines, opened)
	})
}
