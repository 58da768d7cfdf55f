package platform_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

type nodeRead struct {
	Health, Status, Identity string
	NodeInstanceID           string `json:"node_instance_id"`
	Agent                    struct {
		Version        string
		LastSeenAt     string `json:"last_seen_at"`
		LastTaskWaitAt string `json:"last_task_wait_at"`
		APIURL         string `json:"api_url"`
		TerminalURL    string `json:"terminal_url"`
		LastDenial     string `json:"last_denial"`
		Profile        string `json:"environment_profile"`
		DesiredVersion string `json:"desired_version"`
	}
	Profile   string `json:"environment_profile"`
	Occupancy string
	Lost      int `json:"lost_results"`
	Instances []struct {
		ID string `json:"node_instance_id"`
	}
	Cert struct {
		Serial     string
		Issuer     string `json:"issuer_fingerprint"`
		NotAfter   string `json:"not_after"`
		Generation int64
	}
	Recovery struct {
		Reason, State string
		Denial        *struct{ Code, At string } `json:"last_denial"`
		Token         bool                       `json:"current_token"`
		Checklist     []struct{ ID, Status, Text string }
	}
	TerminalReadiness string `json:"terminal_readiness"`
	LatestOperation   struct {
		ID, Type, Status string
	} `json:"latest_operation"`
	StaleTasks int    `json:"stale_tasks"`
	Now        string `json:"now"`
}

func readNode(t *testing.T, p *platformtest.Platform) nodeRead {
	t.Helper()
	var n nodeRead
	if status, _ := p.Do(http.MethodGet, "/v1/admin/nodes/"+platformtest.NodeID, nil, &n); status != http.StatusOK {
		t.Fatalf("read node: status %d", status)
	}
	return n
}

func enqueue(t *testing.T, p *platformtest.Platform, in map[string]any) string {
	t.Helper()
	var out struct{ ID, Status string }
	status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/tasks", in, &out, wire.HeaderCorrelationID,
		correlationID)
	if status != http.StatusCreated || out.ID == "" || out.Status != wire.TaskQueued {
		t.Fatalf("enqueue: status %d, %+v", status, out)
	}
	return out.ID
}

func readTask(t *testing.T, p *platformtest.Platform, id string) (task struct {
	Status      string
	ClaimedAt   string `json:"claimed_at"`
	CompletedAt string `json:"completed_at"`
	LateAt      string `json:"late_at"`
	Reclaims    int
	Result      struct {
		Status string
		Output map[string]any
		Error  wire.ErrorInfo
	}
}) {
	t.Helper()
	if status, _ := p.Do(http.MethodGet, "/v1/admin/tasks/"+id, nil, &task); status != http.StatusOK {
		t.Fatalf("read task: status %d", status)
	}
	return task
}

var waitPath = path(wire.PathTaskWait, platformtest.NodeID)

func TestLongPollWakesAtEnqueue(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{Config: func(c *platform.Config) { c.Policy.TaskWait = 60 }})
	cred := p.Enroll(platformtest.NodeID)
	type answer struct {
		status int
		task   wire.Task
		took   time.Duration
	}
	got := make(chan answer, 1)
	began := time.Now()
	go func() {
		var a answer
		a.status, _ = p.DoNode(cred, http.MethodGet, waitPath+"?timeout=60", nil, &a.task)
		a.took = time.Since(began)
		got <- a
	}()
	wait.For(t, "the node waits", func() bool { return readNode(t, p).Agent.LastTaskWaitAt != "" })
	id := enqueue(t, p, map[string]any{"type": "noop", "payload": map[string]any{"hold_ms": 5}})
	a := <-got
	if a.status != 200 || a.task.ID != id || string(a.task.Payload) != `{"hold_ms":5}` ||
		a.task.CorrelationID != correlationID {
		t.Fatalf("answer %+v", a)
	}
	if a.took > 30*time.Second {
		t.Errorf("woken after %s", a.took)
	}
	verify, err := wire.ParseVerifiers(p.TaskPubkeys)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.Verify(&a.task); err != nil {
		t.Error(err)
	}
	if task := readTask(t, p, id); task.Status != wire.TaskDispatched || task.ClaimedAt == "" {
		t.Errorf("task %+v", task)
	}
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil); status != http.StatusNoContent {
		t.Errorf("the task was handed out twice: %d", status)
	}
}

func TestPeekClaimsAndCountsNothing(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{Config: func(c *platform.Config) { c.Policy.TaskWait = 60 }})
	cred := p.Enroll(platformtest.NodeID)
	id := enqueue(t, p, map[string]any{"type": "noop"})
	for _, query := range []string{"?timeout=0&peek=1", "?peek=1"} {
		began := time.Now()
		status, _ := p.DoNode(cred, http.MethodGet, waitPath+query, nil, nil)
		if took := time.Since(began); status != http.StatusNoContent || took > 30*time.Second {
			t.Errorf("%s: %d after %s", query, status, took)
		}
	}
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil, wire.HeaderProbe,
		"1"); status != http.StatusNoContent {
		t.Errorf("probe header: %d", status)
	}
	if task := readTask(t, p, id); task.Status != wire.TaskQueued {
		t.Errorf("a peek claimed: %s", task.Status)
	}
	if n := readNode(t, p); n.Agent.LastSeenAt != "" {
		t.Errorf("a peek counted as contact: %s", n.Agent.LastSeenAt)
	}
	p.SetIdentity(platformtest.NodeID, wire.DenyRevoked)
	var e wire.ErrorBody
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?peek=1", nil, &e); status != 403 ||
		e.Error.Code != wire.DenyRevoked {
		t.Errorf("a peek is denied like a wait: %d %s", status, e.Error.Code)
	}
	if n := readNode(t, p); n.Agent.LastDenial != "" {
		t.Errorf("a peek's denial counted: %s", n.Agent.LastDenial)
	}
}

func TestDenials(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t,
		platformtest.Options{Now: clk.now, Nodes: []platform.SeedNode{{ID: platformtest.NodeID}, {ID: "compute-node-02"}}})
	cred, other := p.Enroll(platformtest.NodeID), p.Enroll("compute-node-02")
	denied := func(name string, c platformtest.Credential, status int, code string) {
		t.Helper()
		var e wire.ErrorBody
		got, _ := p.DoNode(c, http.MethodPost, path(wire.PathHeartbeat, platformtest.NodeID),
			wire.HeartbeatRequest{NodeInstanceID: "i"}, &e, wire.HeaderCorrelationID, "denial-"+code)
		if got != status || e.Error.Code != code {
			t.Errorf("%s: %d %s, want %d %s", name, got, e.Error.Code, status, code)
		}
		wantEvidence(t, p, "denial-"+code, "node.denied")
	}
	denied("another node's certificate", other, 403, wire.DenyNotNodeBound)
	for _, code := range []string{wire.DenyRevoked, wire.DenyFenced, wire.DenyRetired, wire.DenyCloned} {
		p.SetIdentity(platformtest.NodeID, code)
		denied("identity "+code, cred, 403, code)
	}
	if n := readNode(t, p); n.Agent.LastDenial != wire.DenyCloned || n.Recovery.Reason != "cloned_identity_detected" ||
		n.Recovery.State != "security_action_required" {
		t.Errorf("read model of a cloned node: %+v", n)
	}
	p.SetIdentity(platformtest.NodeID, "")
	p.RevokeCert(cred.Pair.Leaf.SerialNumber.Text(16))
	denied("revoked certificate", cred, 403, wire.DenyRevoked)
	clk.advance(2 * time.Hour) // the ingress still has the old time
	denied("expired certificate",
		p.Issue(platformtest.NodeID, platformtest.IssueOptions{NotAfter: time.Now().Add(time.Hour)}), 401, wire.DenyExpired)
}

func TestIngressTrustsWhatThePlatformDidNotSign(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	stranger := p.Issue(platformtest.NodeID, platformtest.IssueOptions{OtherCA: true})
	issuer := stranger.Pair.Leaf // trusted directly, so that the ingress lets it through
	p.Ingress.Trust(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Raw}))
	var e wire.ErrorBody
	if status, _ := p.DoNode(stranger, http.MethodGet, waitPath+"?peek=1", nil, &e); status != 401 ||
		e.Error.Code != wire.DenyNotNodeBound {
		t.Errorf("%d %s", status, e.Error.Code)
	}
}

func TestIngressPagesAreNginxs(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	bad := p.Issue(platformtest.NodeID,
		platformtest.IssueOptions{NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})
	for _, c := range []struct {
		client *http.Client
		text   string
		size   int // as measured on nginx 1.22.1
	}{
		{p.Client(), "No required SSL certificate was sent", 237},
		{p.NodeClient(bad), "The SSL certificate error", 215},
	} {
		resp, err := c.client.Get(p.NodeAPIURL + waitPath)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 400 || !strings.Contains(string(b), "<center>"+c.text+"</center>") ||
			len(b) != c.size {
			t.Errorf("%d %q (%d bytes, want %d) %v", resp.StatusCode, b, len(b), c.size, err)
		}
	}
}

func TestTooManyWaits(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{Config: func(c *platform.Config) { c.Policy.TaskWait = 60 }})
	cred := p.Enroll(platformtest.NodeID)
	answers := make(chan int, 5)
	for range cap(answers) {
		go func() {
			status, header := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=60", nil, nil)
			if status == 429 && header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After %q", header.Get("Retry-After"))
			}
			answers <- status
		}()
	}
	if status := <-answers; status != 429 { // four wait by now
		t.Errorf("the first answer is %d", status)
	}
	for range 4 {
		enqueue(t, p, map[string]any{"type": "noop"})
	}
	for range 4 {
		if status := <-answers; status != 200 {
			t.Errorf("one that waited: %d", status)
		}
	}
}

// TestSweepLoop: it runs without a request.
func TestSweepLoop(t *testing.T) {
	t.Parallel()
	p := platformtest.StartPlatform(t, platformtest.Options{})
	id := enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 1})
	wait.For(t, "the task is expired", func() bool { return readTask(t, p, id).Status == wire.TaskExpired })
}
