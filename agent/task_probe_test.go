package agent

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestAProbeTaskLeavesNoConnections: a prober keeps connections for its next request, but a task has no next
// request.
func TestAProbeTaskLeavesNoConnections(t *testing.T) {
	tier.NeedsHost(t)
	opened, closed := make(chan struct{}, 8), make(chan struct{}, 8)
	far := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	far.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			opened <- struct{}{}
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	far.Start()
	t.Cleanup(far.Close)
	p := newFakePlatform(t)
	start(t, p.config(nil))
	p.task("t1", wire.TaskProbe, []diag.Request{{ID: "1", Op: diag.OpHTTP, Target: far.URL}})
	if r := p.resultOf("t1"); r.Status != wire.TaskCompleted {
		t.Fatalf("result %+v", r)
	}
	for name, seen := range map[string]chan struct{}{"opened": opened, "closed": closed} {
		select {
		case <-seen:
		case <-time.After(30 * time.Second):
			t.Errorf("no connection was %s", name)
		}
	}
}
