package platform_test

import (
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

// slowSweeps leaves sweeping to the test.
func slowSweeps(c *platform.Config) { c.Policy.TaskStaleSweepInterval = 3600 }

// TestReclaim: an observation whose result is overdue is handed out once more; a desired state waits for its
// result.
func TestReclaim(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now, Config: slowSweeps})
	cred := p.Enroll(platformtest.NodeID)
	claim := func() (task wire.Task) {
		p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
		return task
	}
	sweep := func() {
		t.Helper()
		if _, err := p.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	result := func(id string) int {
		status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id),
			completed(), nil)
		return status
	}
	seen, wanted := enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 600}),
		enqueue(t, p, map[string]any{"type": "node.cordon", "ttl_seconds": 600})
	first, second := claim(), claim()
	clk.advance(20 * time.Second)
	sweep()
	if task := claim(); task.ID != "" {
		t.Errorf("handed out within the lease: %+v", task)
	}
	clk.advance(11 * time.Second)
	beat(t, p, cred, wire.HeartbeatRequest{})
	if n := readNode(t, p); n.Lost != 1 || n.Recovery.Reason != "dispatched_result_lost" ||
		n.Recovery.State != "temporary" {
		t.Errorf("overdue: %d lost, %+v", n.Lost, n.Recovery)
	}
	sweep()
	if task := readTask(t, p, seen); task.Status != wire.TaskQueued || task.Reclaims != 1 {
		t.Errorf("reclaimed: %+v", task)
	}
	if task := readTask(t, p, wanted); task.Status != wire.TaskDispatched || task.Reclaims != 0 {
		t.Errorf("a desired state: %+v", task)
	}
	if task := claim(); task.ID != seen || task.ExpiresAt != first.ExpiresAt {
		t.Errorf("handed out again: %+v", task)
	}
	clk.advance(time.Minute)
	sweep()
	if task := readTask(t, p, seen); task.Status != wire.TaskDispatched || task.Reclaims != 1 {
		t.Errorf("once is enough: %+v", task)
	}
	if status := result(seen); status != 200 || readTask(t, p, seen).Status != wire.TaskCompleted {
		t.Errorf("result: %d", status)
	}
	if status := result(second.ID); status != 200 || readTask(t, p, wanted).Status != wire.TaskCompleted {
		t.Errorf("result of the desired state: %d", status)
	}
	wantEvidence(t, p, correlationID, "task.reclaimed")
}

// TestResultOfAReclaimedTask: the first result may arrive while the task waits to be handed out again.
func TestResultOfAReclaimedTask(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now, Config: slowSweeps})
	cred := p.Enroll(platformtest.NodeID)
	id := enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 600})
	p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil)
	clk.advance(31 * time.Second)
	if _, err := p.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id),
		completed(), nil); status != 200 {
		t.Errorf("result: %d", status)
	}
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil); status != 204 {
		t.Errorf("a finished task was handed out: %d", status)
	}
}

// TestExpiredDesiredState: its operation has failed, and a late result is stored and changes nothing.
func TestExpiredDesiredState(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now, Config: slowSweeps})
	cred := p.Enroll(platformtest.NodeID)
	id := enqueue(t, p, map[string]any{"type": "node.cordon", "ttl_seconds": 30})
	p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil)
	clk.advance(31 * time.Second)
	if _, err := p.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := readNode(t, p)
	if n.LatestOperation.Type != "node.cordon" || n.LatestOperation.Status != wire.TaskFailed || n.Lost != 1 ||
		n.StaleTasks != 0 {
		t.Errorf("latest operation %+v, %d lost, %d stale", n.LatestOperation, n.Lost, n.StaleTasks)
	}
	p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id), completed(), nil)
	if n := readNode(t, p); n.LatestOperation.Status != wire.TaskFailed || n.Lost != 0 {
		t.Errorf("after the late result: %+v, %d lost", n.LatestOperation, n.Lost)
	}
	if ops := operations(t, p); strings.Join(ops, ", ") != "stale_task_sweep completed, node.cordon failed" {
		t.Errorf("operations %q", ops)
	}
	wantEvidence(t, p, correlationID, "task.expired", "operation.failed", "task.result_late")
	if !strings.Contains(evidenceOf(t, p, platformtest.NodeID), "node.stale_tasks_swept") {
		t.Error("the sweep left no evidence")
	}
}

// TestTokenRotation: the token is minted when the node takes the task, and appears in no response, log or row
// except by its digest. The previous token expires when the node has the new one.
func TestTokenRotation(t *testing.T) {
	var log logtest.Log
	db := t.TempDir() + "/platform.db"
	p := platformtest.StartPlatform(t,
		platformtest.Options{Log: &log, Config: func(c *platform.Config) { c.EnvironmentProfile, c.Database = "prod", db }})
	cred := p.Enroll(platformtest.NodeID)
	_, _, bundle := bundleOf(t, p, platformtest.NodeID, nil)
	var e wire.ErrorBody
	if status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/tasks",
		map[string]any{"type": "recovery_token.rotate", "payload": map[string]any{"token": "mine"}}, &e); status != 400 ||
		e.Error.Code != "payload_refused" {
		t.Errorf("a token of the operator's own: %d %s", status, e.Error.Code)
	}
	id := enqueue(t, p, map[string]any{"type": "recovery_token.rotate"})
	var task wire.Task
	p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
	var payload wire.RotateTokenPayload
	if err := json.Unmarshal(task.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	claims, ok := wire.ParseToken(payload.Token)
	if !ok || claims.NodeID != platformtest.NodeID || claims.Profile != "prod" ||
		!claims.ExpiresAt.Equal(payload.ExpiresAt) {
		t.Fatalf("claims %+v", claims)
	}
	verify, err := wire.ParseVerifiers(p.TaskPubkeys)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.Verify(&task); err != nil {
		t.Errorf("the signature covers the token: %v", err)
	}
	r := completed()
	r.Output = []byte(`{"echo":"` + payload.Token + `"}`)
	p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id), r, nil)
	if code, _ := enrollAs(t, p, bundle.Token,
		wire.EnrollRequest{NodeID: platformtest.NodeID}); code != wire.DenyTokenExpired {
		t.Errorf("the token before: %q", code)
	}
	if n := readNode(t, p); !n.Recovery.Token {
		t.Error("no current token in the read model")
	}
	var raw json.RawMessage
	for _, url := range []string{"/v1/admin/tasks/" + id, "/v1/admin/evidence?correlation_id=" + correlationID,
		"/v1/admin/nodes/" + platformtest.NodeID, "/v1/admin/audit"} {
		if p.Do(http.MethodGet, url, nil, &raw); strings.Contains(string(raw), payload.Token) ||
			strings.Contains(string(raw), "echo") {
			t.Errorf("%s holds the token: %s", url, raw)
		}
	}
	wantEvidence(t, p, correlationID, "node.recovery_token_issued", "node.recovery_token_rotated")
	if strings.Contains(log.String(), payload.Token) {
		t.Error("the log holds the token")
	}
	if code, _ := enrollAs(t, p, payload.Token, wire.EnrollRequest{NodeID: platformtest.NodeID}); code != "" {
		t.Errorf("the new token: %q", code)
	}
}

// TestRefusedRotation: a token that the node did not accept is expired, and the previous one stays valid.
func TestRefusedRotation(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	_, _, bundle := bundleOf(t, p, platformtest.NodeID, nil)
	id := enqueue(t, p, map[string]any{"type": "recovery_token.rotate"})
	var task wire.Task
	p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &task)
	var payload wire.RotateTokenPayload
	if err := json.Unmarshal(task.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id),
		wire.TaskResult{Status: wire.TaskFailed}, nil)
	if code, _ := enrollAs(t, p, payload.Token,
		wire.EnrollRequest{NodeID: platformtest.NodeID}); code != wire.DenyTokenExpired {
		t.Errorf("the new token: %q", code)
	}
	if code, _ := enrollAs(t, p, bundle.Token, wire.EnrollRequest{NodeID: platformtest.NodeID}); code != "" {
		t.Errorf("the token before: %q", code)
	}
}

// TestReasonsOfTheReadModel: the reasons that only the platform can find for a node that reports.
func TestReasonsOfTheReadModel(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t,
		platformtest.Options{Now: clk.now, Nodes: []platform.SeedNode{{ID: platformtest.NodeID, PrivateIP: "10.231.77.101"}},
			Config: func(c *platform.Config) { slowSweeps(c); c.Policy.DesiredAgentVersion = "v2" }})
	cred := p.Enroll(platformtest.NodeID)
	for _, c := range []struct {
		name string
		beat wire.HeartbeatRequest
		want string
	}{
		{"all well", wire.HeartbeatRequest{AgentVersion: "v2", Addresses: []string{"10.231.77.101/24", "fe80::1"}}, "none"},
		{"an old build", wire.HeartbeatRequest{AgentVersion: "v1", Addresses: []string{"10.231.77.101"}},
			"agent_version_drift"},
		{"another address", wire.HeartbeatRequest{AgentVersion: "v2", Addresses: []string{"10.231.77.150"}},
			"ip_route_drift"},
	} {
		beat(t, p, cred, c.beat)
		if n := readNode(t, p); n.Recovery.Reason != c.want || n.Agent.DesiredVersion != "v2" {
			t.Errorf("%s: %+v, desired %q", c.name, n.Recovery, n.Agent.DesiredVersion)
		}
	}
	clk.advance(2 * time.Hour) // past the certificate's end
	if n := readNode(t, p); n.Recovery.Reason != "recovery_token_missing" ||
		n.Recovery.State != "operator_action_required" || n.Recovery.Token {
		t.Errorf("expired without a token: %+v", n.Recovery)
	}
	bundleOf(t, p, platformtest.NodeID, nil)
	if n := readNode(t, p); n.Recovery.Reason != "cert_expired" || n.Recovery.State != "recovering" {
		t.Errorf("expired with a token: %+v", n.Recovery)
	}
}

// TestTrustAcrossRestarts: a repair by a restart is recorded as evidence; a persistent mismatch is recorded once.
func TestTrustAcrossRestarts(t *testing.T) {
	db, drifted := t.TempDir()+"/platform.db", true
	start := func() *platformtest.Platform {
		return platformtest.StartPlatform(t, platformtest.Options{Config: func(c *platform.Config) {
			slowSweeps(c)
			if c.Database = db; drifted {
				c.PKI.IngressCA = c.PKI.NodeCABundle
			}
		}})
	}
	for i, want := range []struct {
		drifted            bool
		mismatch, restored int
	}{{true, 1, 0}, {true, 1, 0}, {false, 1, 1}, {false, 1, 1}} {
		drifted = want.drifted
		p := start()
		for kind, n := range map[string]int{"platform.trust_mismatch": want.mismatch,
			"platform.trust_restored": want.restored} {
			if rows, err := p.Store().Recent(t.Context(), kind, 10); err != nil || len(rows) != n {
				t.Errorf("start %d: %d of %s, want %d (%v)", i+1, len(rows), kind, n, err)
			}
		}
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTrustIsLookedAtAgain: a drift of the ingress is recorded when it begins and when it ends.
func TestTrustIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	p := platformtest.StartPlatform(t, platformtest.Options{Log: &log})
	signing, err := p.Store().Recent(t.Context(), "platform.trust_mismatch", 10)
	if err != nil || len(signing) != 0 {
		t.Fatalf("at first: %d %v", len(signing), err)
	}
	good := p.SigningCA()
	p.WriteIngressCA([]byte(p.CAPEM))
	count := func(kind string) int {
		rows, err := p.Store().Recent(t.Context(), kind, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	wait.For(t, "the mismatch is seen", func() bool { return count("platform.trust_mismatch") == 1 })
	p.WriteIngressCA(good)
	wait.For(t, "the repair is seen", func() bool { return count("platform.trust_restored") == 1 })
	if !strings.Contains(log.String(), `"level":"ERROR","msg":"node ingress does not trust the signing CA`) {
		t.Error("nothing loud in the log")
	}
}
