package platform_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// post sends JSON with a bearer token and reads the response.
func post(t *testing.T, p *platformtest.Platform, url, token string, in, out any) int {
	t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(short(t), http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := p.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestOperatorAuth(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	for _, c := range []struct {
		path, token string
		status      int
	}{
		{"/healthz", "", 200}, {"/healthz", p.OperatorToken.Reveal(), 200}, {"/healthz", "wrong", 401},
		{"/v1/admin/trust", "", 401}, {"/v1/admin/trust", "wrong", 401}, {"/v1/admin/trust", p.OperatorToken.Reveal(), 200},
		{"/v1/nothing", p.OperatorToken.Reveal(), 404},
	} {
		req, err := http.NewRequestWithContext(short(t), http.MethodGet, p.APIBase+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		req.Header.Set(wire.HeaderCorrelationID, "mine-1")
		resp, err := p.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != c.status || resp.Header.Get(wire.HeaderCorrelationID) != "mine-1" {
			t.Errorf("%s with %q: %d, correlation id %q", c.path, c.token, resp.StatusCode,
				resp.Header.Get(wire.HeaderCorrelationID))
		}
		if c.status >= 400 {
			if e := envelope(t, resp); e.CorrelationID != "mine-1" {
				t.Errorf("%s: envelope %+v", c.path, e)
			}
		}
		resp.Body.Close()
	}
}

func TestAllocations(t *testing.T) {
	app := platform.SeedApp{Kind: "web", Unit: "gpuaas-workload.service", Port: 8000,
		ProductURL: "https://alloc-01.apps.gpuaas.test/"}
	p := platformtest.StartPlatform(t, platformtest.Options{
		Nodes: []platform.SeedNode{{ID: platformtest.NodeID, PrivateIP: "10.231.77.101"}},
		Allocations: []platform.SeedAllocation{
			{ID: platformtest.AllocationID, NodeID: platformtest.NodeID, State: "active", OSUser: "tenant", WorkflowID: "wf",
				App: app},
			{ID: "alloc-stuck", NodeID: platformtest.NodeID, State: "release_failed", OSUser: "tenant"},
		},
	})
	var a struct {
		State, Occupancy string
		NodeID           string `json:"node_id"`
		OSUser           string `json:"os_user"`
		App              *struct{ Status, Unit, Endpoint string }
	}
	p.Do(http.MethodGet, "/v1/allocations/"+platformtest.AllocationID, nil, &a)
	if a.State != "active" || a.Occupancy != "occupied" || a.NodeID != platformtest.NodeID || a.OSUser != "tenant" ||
		a.App == nil ||
		a.App.Status != "unknown" || a.App.Endpoint != "10.231.77.101:8000" || a.App.Unit != app.Unit {
		t.Errorf("allocation %+v %+v", a, a.App)
	}
	var e wire.ErrorBody
	if status, _ := p.Do(http.MethodPost, "/v1/allocations/alloc-stuck/terminal-token", nil, &e); status != 409 ||
		e.Error.Code != "allocation_not_active" {
		t.Errorf("mint on a stuck allocation: %d %s", status, e.Error.Code)
	}
	if status, _ := p.Do(http.MethodPost, "/v1/admin/allocations/"+platformtest.AllocationID+"/force-release",
		map[string]string{"reason": "a try"}, &e); status != 409 {
		t.Errorf("force-release of an active allocation: %d", status)
	}
	if status, _ := p.Do(http.MethodPost, "/v1/admin/allocations/alloc-stuck/force-release",
		map[string]string{"reason": "cleanup is stuck"}, &a,
		// what is left is unknown
		wire.HeaderCorrelationID, correlationID); status != 200 || a.State != "released" || a.Occupancy != "cleanup" {
		t.Errorf("force-release: %d %+v", status, a)
	}
	wantEvidence(t, p, correlationID, "allocation.force_released")
	if status, _ := p.Do(http.MethodGet, "/v1/allocations/none", nil, &e); status != 404 ||
		e.Error.Code != "allocation_not_found" {
		t.Errorf("no allocation: %d %s", status, e.Error.Code)
	}
}

// TestAppObservations: completed probes set the status, missing ones keep it.
func TestAppObservations(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{
		Now: clk.now, Nodes: []platform.SeedNode{{ID: platformtest.NodeID}},
		Allocations: []platform.SeedAllocation{{ID: platformtest.AllocationID, NodeID: platformtest.NodeID, State: "active",
			OSUser: "tenant", App: platform.SeedApp{Kind: "web", Unit: "w.service", Port: 80}}},
		Config: func(c *platform.Config) {
			c.Policy.AppStatusProbeInterval, c.Policy.TaskStaleSweepInterval = 3600, 3600
		},
	})
	cred := p.Enroll(platformtest.NodeID)
	type app struct {
		App struct {
			Status   string
			Observed string `json:"last_observed_at"`
			Missed   string `json:"last_runtime_probe_failed_at"`
		}
	}
	read := func() (a app) {
		p.Do(http.MethodGet, "/v1/allocations/"+platformtest.AllocationID, nil, &a)
		return a
	}
	claim := func() (task wire.Task) {
		t.Helper()
		wait.For(t, "a status probe", func() bool {
			status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=1", nil, &task)
			return status == 200
		})
		if task.Type != wire.TaskStatusProbe || string(task.Payload) != `{"unit":"w.service","port":80}` {
			t.Fatalf("task %s %s", task.Type, task.Payload)
		}
		return task
	}
	r := completed()
	r.Output = []byte(`{"running":true,"state":"active","port_ok":true}`)
	p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", claim().ID), r, nil)
	if a := read().App; a.Status != "running" || a.Observed == "" || a.Missed != "" {
		t.Errorf("observed: %+v", a)
	}
	if n := readNode(t, p); n.LatestOperation.ID != "" {
		t.Errorf("an observation is no operation: %+v", n.LatestOperation)
	}
	if err := p.ProbeApps(t.Context()); err != nil {
		t.Fatal(err)
	}
	clk.advance(2 * time.Hour) // that one is missed
	if _, err := p.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := read().App; a.Status != "running" || a.Missed == "" {
		t.Errorf("missed: %+v", a)
	}
	if err := p.ProbeApps(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _ := p.DoNode(p.Issue(platformtest.NodeID, platformtest.IssueOptions{}), http.MethodGet,
		waitPath+"?timeout=0", nil, nil); status != 204 {
		t.Errorf("probed again without a pause: %d", status)
	}
}

func TestTaskRequestsAreChecked(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	for _, c := range []struct {
		node, body string
		status     int
		code       string
	}{
		{platformtest.NodeID, `{"type":"rm -rf"}`, 400, "task_type_unknown"},
		{platformtest.NodeID, `{"type":"noop","ttl_seconds":99999999}`, 400, "ttl_invalid"},
		{platformtest.NodeID, `{"type":"noop","correlation_id":"with space"}`, 400, "correlation_id_invalid"},
		{platformtest.NodeID, `["no object"]`, 400, "body_invalid"},
		{"none", `{"type":"noop"}`, 404, "node_not_found"},
	} {
		var e wire.ErrorBody
		status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+c.node+"/tasks", json.RawMessage(c.body), &e)
		if status != c.status || e.Error.Code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.body, status, e.Error.Code, c.status, c.code)
		}
	}
}

func TestTrust(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	p.Enroll(platformtest.NodeID)
	var trust struct {
		SigningCA string `json:"signing_ca"`
		IngressCA string `json:"ingress_ca"`
		NodeAPI   string `json:"node_api_server"`
		Terminal  string `json:"terminal_server"`
		Trusts    *bool  `json:"ingress_trusts_signing_ca"`
	}
	p.Do(http.MethodGet, "/v1/admin/trust", nil, &trust)
	if len(trust.SigningCA) != 64 || trust.SigningCA != trust.IngressCA || len(trust.NodeAPI) != 64 ||
		len(trust.Terminal) != 64 || trust.Trusts == nil || !*trust.Trusts {
		t.Errorf("trust %+v", trust)
	}
	if n := readNode(t, p); n.Cert.Issuer != trust.SigningCA {
		t.Errorf("issuer %s, signing CA %s", n.Cert.Issuer, trust.SigningCA)
	}
	p.WriteIngressCA([]byte(p.CAPEM)) // drift
	p.Do(http.MethodGet, "/v1/admin/trust", nil, &trust)
	if trust.SigningCA == trust.IngressCA || *trust.Trusts {
		t.Errorf("drifted trust %+v", trust)
	}
	if n := readNode(t, p); n.Recovery.Reason != "cert_untrusted_by_ingress" || n.Recovery.Checklist[1].Status != "fail" {
		t.Errorf("drifted: %+v", n.Recovery)
	}
}

func TestLogsHoldNoSecret(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	_, p := withRedis(t, impatient, func(o *platformtest.Options) { o.Log = &log })
	enrollment := p.EnrollmentToken(platformtest.NodeID).Reveal()
	p.Enroll(platformtest.NodeID)
	m := mint(t, p)
	conn, _, err := attach(t, p, m.URL, m.Token)
	if err != nil {
		t.Fatal(err)
	}
	readFrame(t, conn)
	p.Do(http.MethodGet, "/v1/admin/evidence?correlation_id="+correlationID, nil, nil)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if !strings.Contains(text, `"correlation_id":"`+correlationID+`"`) ||
		!strings.Contains(text, `"path":"/v1/admin/evidence"`) {
		t.Errorf("the log does not show the requests:\n%s", text)
	}
	for name, secret := range map[string]string{"operator token": p.OperatorToken.Reveal(), "enrollment token": enrollment,
		"terminal token": m.Token, "query": "?correlation_id="} {
		if strings.Contains(text, secret) {
			t.Errorf("the log holds the %s", name)
		}
	}
}
