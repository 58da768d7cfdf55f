package platform_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/wire"
)

// coordinator is a server that places work on nodes: it keeps what it is asked, and answers with code.
type coordinator struct {
	*httptest.Server

	mu    sync.Mutex // guards what is below
	code  int
	asked []map[string]string
}

func newCoordinator(t *testing.T) *coordinator {
	c := &coordinator{code: http.StatusOK}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]string
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Method != http.MethodPost || r.URL.Path != "/hook" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, in)
		w.Header().Set("Location", "/hook")
		w.WriteHeader(c.code)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *coordinator) answer(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code = code
}

func (c *coordinator) last() (n int, asked map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked), c.asked[len(c.asked)-1]
}

// TestStatusIsAsked: an operator's word is audited, never makes an unhealthy node anything else, and is taken back when
// the coordinator does not take it.
func TestStatusIsAsked(t *testing.T) {
	program, c := judgeProgram(t), newCoordinator(t)
	p := platformtest.StartPlatform(t, platformtest.Options{Config: func(cfg *platform.Config) {
		cfg.GPU = platform.GPU{Policy: "default", Program: program, Coordinator: c.URL + "/hook"}
	}})
	n := newGPUNode(t, p, platformtest.NodeID, time.Now)
	const reason = "fan \"3\" is loud\n{{.}} $(id)"
	ask := func(action string, code int, want string) {
		t.Helper()
		var d struct {
			Status string
			Error  wire.ErrorInfo
		}
		status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/"+action,
			map[string]any{"reason": reason, "by": "ann"}, &d)
		if status != code || d.Status+d.Error.Code != want {
			t.Errorf("%s: %d %+v, want %d %s", action, status, d, code, want)
		}
	}
	if status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/uncordon", nil, nil); status != 400 {
		t.Errorf("without a reason: %d", status)
	}
	ask("cordon", 200, "CORDONED")
	if _, in := c.last(); in["node"] != platformtest.NodeID || in["asked"] != "cordon" || in["from"] != "ACTIVE" ||
		in["to"] != "CORDONED" || in["by"] != "ann" || in["reason"] != reason || in["kind"] != "NodeStatusAsked" {
		t.Errorf("the coordinator was asked %q", in)
	}
	n.want(n.tell(gpuWatched(""), gpuSample(nil)), "HEALTHY", "CORDONED", "")
	n.want(n.tell(gpuSignal(report.Temperature, report.Of(96))), "UNHEALTHY", "UNHEALTHY", "95 C")
	ask("uncordon", 200, "UNHEALTHY") // which decides what it goes back to
	n.want(n.judged(), "UNHEALTHY", "UNHEALTHY", "95 C")
	ask("drain", 200, "UNHEALTHY")
	for _, code := range []int{http.StatusInternalServerError, http.StatusTemporaryRedirect} {
		c.answer(code)
		ask("cordon", 502, "coordinator_failed")
	}
	n.want(n.tell(gpuSample(nil)), "HEALTHY", "DRAINING", "")
	asked, _ := c.last()
	c.Close()
	ask("uncordon", 502, "coordinator_failed")
	n.want(n.judged(), "HEALTHY", "DRAINING", "")
	if now, _ := c.last(); now != asked {
		t.Errorf("%d requests after %d", now, asked)
	}
	ask("reboot", 404, "route_not_found")
	rows, err := p.Store().AuditRows(t.Context(), store.AuditQuery{NodeID: platformtest.NodeID, Limit: 99})
	var actions []string
	for _, a := range rows {
		if a.ActorType != "operator" || a.Phase != store.AuditDecision {
			continue
		}
		word := strings.TrimPrefix(a.Action, "node.")
		switch {
		case strings.HasPrefix(a.Reason, "taken back: "):
			word += " back"
		case a.Reason != reason:
			t.Errorf("%+v", a)
		}
		if a.ActorID != "ann" {
			t.Errorf("%+v", a)
		}
		actions = append(actions, word)
	}
	want := "cordon uncordon drain cordon cordon back cordon cordon back uncordon uncordon back"
	if got := strings.Join(actions, " "); got != want || err != nil {
		t.Errorf("the audit has %q, want %q, %v", got, want, err)
	}
}
