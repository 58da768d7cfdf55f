package platform_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/gpu/status"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// coordinator is a server that places work on nodes: it records requests, and responds with code.
type coordinator struct {
	*httptest.Server

	hold func(asked string) // called before it responds; may be nil

	mu     sync.Mutex // guards what is below
	code   int
	forget string // a node that it does not know
	does   bool   // also what it refuses
	asked  []map[string]string
	known  string // the newest request that it executed: kind, request, status
}

func newCoordinator(t *testing.T) *coordinator {
	tier.NeedsHost(t)
	c := &coordinator{code: http.StatusOK}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]string
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Method != http.MethodPost || r.URL.Path != "/hook" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		if c.hold != nil {
			c.hold(in["asked"])
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, in)
		code := c.code
		if in["node"] == c.forget {
			code = http.StatusNotFound
		}
		if code == http.StatusOK || c.does {
			c.known = in["kind"] + " " + in["asked"] + " " + in["to"]
		}
		w.Header().Set("Location", "/hook")
		w.WriteHeader(code)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *coordinator) answer(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code = code
}

// last returns the newest decision of an operator that it was asked to execute, and how many there were.
func (c *coordinator) last() (n int, asked map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, in := range c.asked {
		if in["kind"] == "NodeStatusAsked" {
			n, asked = n+1, in
		}
	}
	return n, asked
}

// knows returns the last request that it accepted.
func (c *coordinator) knows() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// TestStatusIsAsked: an operator's request is audited, never changes an unhealthy node to another status, and is
// reverted if the coordinator does not accept it.
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
		got, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/"+action,
			map[string]any{"reason": reason, "by": "ann"}, &d)
		if got != code || d.Status+d.Error.Code != want {
			t.Errorf("%s: %d %+v, want %d %s", action, got, d, code, want)
		}
	}
	if code, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/uncordon", nil, nil); code != 400 {
		t.Errorf("without a reason: %d", code)
	}
	ask("cordon", 200, "CORDONED")
	if _, in := c.last(); in["node"] != platformtest.NodeID || in["asked"] != "cordon" || in["from"] != "ACTIVE" ||
		in["to"] != "CORDONED" || in["by"] != "ann" || in["reason"] != reason || in["kind"] != "NodeStatusAsked" {
		t.Errorf("the coordinator was asked %q", in)
	}
	n.want(n.tell(gpuWatched(""), gpuSample(nil)), "HEALTHY", "CORDONED", "")
	n.want(n.tell(gpuSignal(report.Temperature, report.ReadingOf(96))), "UNHEALTHY", "UNHEALTHY", "95 C")
	ask("uncordon", 200, "UNHEALTHY") // it determines the status after the recovery
	n.want(n.judged(), "UNHEALTHY", "UNHEALTHY", "95 C")
	ask("drain", 200, "UNHEALTHY")
	for _, code := range []int{http.StatusInternalServerError, http.StatusTemporaryRedirect} {
		c.answer(code)
		ask("cordon", 502, "coordinator_failed")
	}
	n.want(n.tell(gpuSample(nil)), "HEALTHY", "DRAINING", "")
	c.Close()
	asked, _ := c.last()
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

// TestCoordinatorKnows: the newest notice about each node is sent until the coordinator accepts it: a policy's
// change, or an operator's request whose platform ended before the coordinator had accepted it.
func TestCoordinatorKnows(t *testing.T) {
	program, c := judgeProgram(t), newCoordinator(t)
	p := platformtest.StartPlatform(t, platformtest.Options{Config: func(cfg *platform.Config) {
		cfg.GPU = platform.GPU{Policy: "default", Program: program, Coordinator: c.URL + "/hook"}
	}})
	n := newGPUNode(t, p, platformtest.NodeID, time.Now)
	knows := func(want string) {
		t.Helper()
		if err := p.NotifyCoordinator(t.Context()); err != nil {
			t.Error(err)
		}
		if got := c.knows(); got != want {
			t.Errorf("the coordinator knows %q, want %q", got, want)
		}
		if due, err := p.Store().NodesWithNotice(t.Context()); err != nil || len(due) > 0 {
			t.Errorf("due: %+v, %v", due, err)
		}
	}
	refused := func(want string) {
		t.Helper()
		if err := p.NotifyCoordinator(t.Context()); err == nil || !strings.Contains(err.Error(), "500") {
			t.Errorf("a coordinator that takes nothing: %v", err)
		}
		due, err := p.Store().NodesWithNotice(t.Context())
		if err != nil || len(due) != 1 || due[0].Due.Asked+" "+string(due[0].Due.To) != want {
			t.Errorf("due: %+v, %v, want %s", due, err, want)
		}
	}
	hot := gpuSignal(report.Temperature, report.ReadingOf(96))
	n.want(n.tell(gpuWatched(""), hot), "UNHEALTHY", "UNHEALTHY", "95 C")
	knows("NodeStatusChanged report UNHEALTHY")
	c.answer(http.StatusInternalServerError)
	n.want(n.tell(gpuSample(nil)), "HEALTHY", "ACTIVE", "")
	refused("report ACTIVE")
	// An operator's request that it does not accept leaves the earlier notice due.
	if code, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/drain",
		map[string]any{"reason": "r", "by": "ann"}, nil); code != http.StatusBadGateway {
		t.Errorf("drain: %d", code)
	}
	refused("report ACTIVE")
	c.answer(http.StatusOK)
	knows("NodeStatusChanged report ACTIVE")

	d := store.Decision{NodeID: platformtest.NodeID, Action: "node.cordon", By: "ann", Reason: "r", CorrelationID: "c1",
		At: time.Now()}
	if _, _, err := p.Store().AskStatus(t.Context(), d, status.Node.Cordon); err != nil {
		t.Fatal(err)
	}
	knows("NodeStatusAsked cordon CORDONED")
}

// asks sends an operator's request, and returns the response's code and error.
func asks(p *platformtest.Platform, node, action string) (code int, said wire.ErrorInfo) {
	var d struct{ Error wire.ErrorInfo }
	code, _ = p.Do(http.MethodPost, "/v1/admin/nodes/"+node+"/"+action, map[string]any{"reason": "r", "by": "ann"}, &d)
	return code, d.Error
}

// withCoordinator returns a platform whose coordinator is at url.
func withCoordinator(t *testing.T, url string, more ...platform.SeedNode) *platformtest.Platform {
	t.Helper()
	program := judgeProgram(t)
	nodes := append([]platform.SeedNode{{ID: platformtest.NodeID, Hostname: platformtest.NodeID}}, more...)
	return platformtest.StartPlatform(t, platformtest.Options{Nodes: nodes, Config: func(cfg *platform.Config) {
		cfg.GPU = platform.GPU{Policy: "default", Program: program, Coordinator: url}
	}})
}

// TestCoordinatorKeepsTheOrder: the coordinator gets two decisions in their order, however long the first one
// takes.
func TestCoordinatorKeepsTheOrder(t *testing.T) {
	c := newCoordinator(t)
	came, overtaken := make(chan bool, 2), make(chan bool, 2)
	c.hold = func(asked string) {
		came <- true
		if asked == "uncordon" {
			overtaken <- true
			return
		}
		select {
		case <-overtaken:
		case <-time.After(300 * time.Millisecond): // the second one must wait
		}
	}
	p := withCoordinator(t, c.URL+"/hook")
	var both sync.WaitGroup
	ask := func(action string) {
		if code, said := asks(p, platformtest.NodeID, action); code != http.StatusOK {
			t.Errorf("%s: %d %+v", action, code, said)
		}
	}
	both.Go(func() { ask("cordon") })
	<-came
	both.Go(func() { ask("uncordon") })
	both.Wait()
	if got := c.knows(); got != "NodeStatusAsked uncordon ACTIVE" {
		t.Errorf("the coordinator ended with %q, and the node is ACTIVE", got)
	}
}

// TestCoordinatorThatDoesAndFails: a request that it executed, but answered with an error, is reverted there when
// it responds again.
func TestCoordinatorThatDoesAndFails(t *testing.T) {
	c := newCoordinator(t)
	c.code, c.does = http.StatusInternalServerError, true
	p := withCoordinator(t, c.URL+"/hook")
	if code, said := asks(p, platformtest.NodeID, "cordon"); code != http.StatusBadGateway {
		t.Errorf("%d %+v", code, said)
	}
	c.answer(http.StatusOK)
	if err := p.NotifyCoordinator(t.Context()); err != nil || c.knows() != "NodeStatusAsked uncordon ACTIVE" {
		t.Errorf("it knows %q, %v", c.knows(), err)
	}
	if due, err := p.Store().NodesWithNotice(t.Context()); err != nil || len(due) > 0 {
		t.Errorf("due: %+v, %v", due, err)
	}
}

// TestCoordinatorRefusesOneNode: the other nodes' notices are still sent.
func TestCoordinatorRefusesOneNode(t *testing.T) {
	c, other := newCoordinator(t), "node-z"
	c.forget = platformtest.NodeID
	p := withCoordinator(t, c.URL+"/hook", platform.SeedNode{ID: other, Hostname: other})
	for i, id := range []string{platformtest.NodeID, other} {
		d := store.Decision{NodeID: id, Action: "node.cordon", By: "ann", Reason: "r", CorrelationID: "c1",
			At: time.Now().Add(-time.Duration(i) * time.Minute)}
		if _, _, err := p.Store().AskStatus(t.Context(), d, status.Node.Cordon); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.NotifyCoordinator(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("one that is refused: %v", err)
	}
	if due, err := p.Store().NodesWithNotice(t.Context()); err != nil || len(due) != 1 || due[0].NodeID == other {
		t.Errorf("due: %+v, %v", due, err)
	}
}

// TestHostileCoordinator: none of its text, and nothing of its URL that an operator may not know, reaches any
// caller.
func TestHostileCoordinator(t *testing.T) {
	tier.NeedsHost(t)
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("HTTP/1.1 500 \x1b[31mevil" + strings.Repeat("x", 1<<20) + "\r\n\r\n")) // it may hang up
	}))
	t.Cleanup(c.Close)
	p := withCoordinator(t, c.URL+"/hook?key=hidden")
	want := func() {
		t.Helper()
		code, said := asks(p, platformtest.NodeID, "cordon")
		if text := said.Message; code != http.StatusBadGateway || len(text) > 300 || strings.Contains(text, "evil") ||
			strings.Contains(text, "hidden") || text == "" {
			t.Errorf("%d, %d bytes: %.300q", code, len(text), text)
		}
	}
	want()
	c.Close()
	want()
}
