package platform_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/platform"
	"github.com/gpuaas/gpuaasctl/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/wire"
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
	}
	Cert struct {
		Serial     string
		Issuer     string `json:"issuer_fingerprint"`
		NotAfter   string `json:"not_after"`
		Generation int64
	}
	Recovery struct {
		Reason, State string
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
	status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/tasks", in, &out, wire.HeaderCorrelationID, correlationID)
	if status != http.StatusCreated || out.ID == "" || out.Status != wire.TaskQueued {
		t.Fatalf("enqueue: status %d, %+v", status, out)
	}
	return out.ID
}

func readTask(t *testing.T, p *platformtest.Platform, id string) (task struct {
	Status      string
	ClaimedAt   string `json:"claimed_at"`
	CompletedAt string `json:"completed_at"`
	Result      struct {
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
	p := platformtest.StartPlatform(t, platformtest.Options{})
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
		a.status, _ = p.DoNode(cred, http.MethodGet, waitPath+"?timeout=5", nil, &a.task)
		a.took = time.Since(began)
		got <- a
	}()
	eventually(t, "the node waits", func() bool { return readNode(t, p).Agent.LastTaskWaitAt != "" })
	id := enqueue(t, p, map[string]any{"type": "noop", "payload": map[string]any{"hold_ms": 5}})
	a := <-got
	if a.status != 200 || a.task.ID != id || string(a.task.Payload) != `{"hold_ms":5}` || a.task.CorrelationID != correlationID {
		t.Fatalf("answer %+v", a)
	}
	if a.took > 3*time.Second {
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
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	id := enqueue(t, p, map[string]any{"type": "noop"})
	for _, query := range []string{"?timeout=0&peek=1", "?peek=1"} {
		began := time.Now()
		status, _ := p.DoNode(cred, http.MethodGet, waitPath+query, nil, nil)
		if took := time.Since(began); status != http.StatusNoContent || took > time.Second {
			t.Errorf("%s: %d after %s", query, status, took)
		}
	}
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil, wire.HeaderProbe, "1"); status != http.StatusNoContent {
		t.Errorf("probe header: %d", status)
	}
	if task := readTask(t, p, id); task.Status != wire.TaskQueued {
		t.Errorf("a peek claimed: %s", task.Status)
	}
	if n := readNode(t, p); n.Agent.LastSeenAt != "" {
		t.Errorf("a peek counted as contact: %s", n.Agent.LastSeenAt)
	}
	if err := p.Store().SetIdentity(t.Context(), platformtest.NodeID, wire.DenyRevoked); err != nil {
		t.Fatal(err)
	}
	var e wire.ErrorBody
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?peek=1", nil, &e); status != 403 || e.Error.Code != wire.DenyRevoked {
		t.Errorf("a peek is denied like a wait: %d %s", status, e.Error.Code)
	}
	if n := readNode(t, p); n.Agent.LastDenial != "" {
		t.Errorf("a peek's denial counted: %s", n.Agent.LastDenial)
	}
}

func TestDenials(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now, Nodes: []platform.SeedNode{{ID: platformtest.NodeID}, {ID: "compute-node-02"}}})
	cred, other := p.Enroll(platformtest.NodeID), p.Enroll("compute-node-02")
	denied := func(name string, c platformtest.Credential, status int, code string) {
		t.Helper()
		var e wire.ErrorBody
		got, _ := p.DoNode(c, http.MethodPost, path(wire.PathHeartbeat, platformtest.NodeID), wire.HeartbeatRequest{NodeInstanceID: "i"}, &e, wire.HeaderCorrelationID, "denial-"+code)
		if got != status || e.Error.Code != code {
			t.Errorf("%s: %d %s, want %d %s", name, got, e.Error.Code, status, code)
		}
		wantEvidence(t, p, "denial-"+code, "node.denied")
	}
	denied("another node's certificate", other, 403, wire.DenyNotNodeBound)
	for _, code := range []string{wire.DenyRevoked, wire.DenyFenced, wire.DenyRetired, wire.DenyCloned} {
		if err := p.Store().SetIdentity(t.Context(), platformtest.NodeID, code); err != nil {
			t.Fatal(err)
		}
		denied("identity "+code, cred, 403, code)
	}
	if n := readNode(t, p); n.Agent.LastDenial != wire.DenyCloned || n.Recovery.Reason != "cloned_identity_detected" || n.Recovery.State != "security_action_required" {
		t.Errorf("read model of a cloned node: %+v", n)
	}
	if err := p.Store().SetIdentity(t.Context(), platformtest.NodeID, ""); err != nil {
		t.Fatal(err)
	}
	if err := p.Store().RevokeCert(t.Context(), cred.Pair.Leaf.SerialNumber.Text(16), time.Now()); err != nil {
		t.Fatal(err)
	}
	denied("revoked certificate", cred, 403, wire.DenyRevoked)
	clk.advance(2 * time.Hour) // the ingress is of the old time
	denied("expired certificate", p.Issue(platformtest.NodeID, platformtest.IssueOptions{NotAfter: time.Now().Add(time.Hour)}), 401, wire.DenyExpired)
}

func TestIngressTrustsWhatThePlatformDidNotSign(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	stranger := p.Issue(platformtest.NodeID, platformtest.IssueOptions{OtherCA: true})
	issuer := stranger.Pair.Leaf // trusted directly: the ingress lets it through
	p.Ingress.Trust(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Raw}))
	var e wire.ErrorBody
	if status, _ := p.DoNode(stranger, http.MethodGet, waitPath+"?peek=1", nil, &e); status != 401 || e.Error.Code != wire.DenyNotNodeBound {
		t.Errorf("%d %s", status, e.Error.Code)
	}
}

func TestIngressPagesAreNginxs(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	bad := p.Issue(platformtest.NodeID, platformtest.IssueOptions{NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})
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
		if err != nil || resp.StatusCode != 400 || !strings.Contains(string(b), "<center>"+c.text+"</center>") || len(b) != c.size {
			t.Errorf("%d %q (%d bytes, want %d) %v", resp.StatusCode, b, len(b), c.size, err)
		}
	}
}

// csr makes a certificate request.
func csr(t *testing.T, cn string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// forged changes a request's signature.
func forged(t *testing.T, request string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(request))
	if block == nil {
		t.Fatal("no request")
	}
	block.Bytes[len(block.Bytes)-1] ^= 1
	return string(pem.EncodeToMemory(block))
}

func TestEnroll(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now, Nodes: []platform.SeedNode{{ID: platformtest.NodeID}, {ID: "compute-node-02"}}})
	token := p.EnrollmentToken(platformtest.NodeID).Reveal()
	enroll := func(token, nodeID, request string) (int, string, wire.EnrollResponse) {
		t.Helper()
		var out struct {
			wire.EnrollResponse
			wire.ErrorBody
		}
		resp := post(t, p, p.NodeAPIURL+wire.PathEnroll, token, wire.EnrollRequest{NodeID: nodeID, NodeInstanceID: "i", CSR: request}, &out)
		return resp, out.Error.Code, out.EnrollResponse
	}
	broken := forged(t, csr(t, ""))
	for _, c := range []struct {
		name, token, node, csr string
		status                 int
		code                   string
	}{
		{"no token", "", platformtest.NodeID, csr(t, ""), 401, "unauthorized"},
		{"unknown token", "x", platformtest.NodeID, csr(t, ""), 401, "unauthorized"},
		{"another node's token", token, "compute-node-02", csr(t, ""), 403, wire.DenyNotNodeBound},
		{"another node's name", token, platformtest.NodeID, csr(t, "compute-node-02"), 403, wire.DenyNotNodeBound},
		{"no request", token, platformtest.NodeID, "", 400, "csr_invalid"},
		{"broken request", token, platformtest.NodeID, broken, 400, "csr_invalid"},
	} {
		if status, code, _ := enroll(c.token, c.node, c.csr); status != c.status || code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, code, c.status, c.code)
		}
	}
	request := csr(t, platformtest.NodeID)
	status, _, first := enroll(token, platformtest.NodeID, request)
	if status != 200 || first.Generation != 1 || first.CABundle != p.CAPEM || first.APIURL != p.NodeAPIURL || first.TerminalURL != p.NodeTerminalURL {
		t.Fatalf("enroll: %d %+v", status, first)
	}
	block, _ := pem.Decode([]byte(first.Certificate))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil || leaf.Subject.CommonName != platformtest.NodeID || len(leaf.URIs) != 1 || leaf.URIs[0].String() != "gpuaas:node:"+platformtest.NodeID ||
		leaf.DNSNames[0] != platformtest.NodeID {
		t.Fatalf("certificate %+v %v", leaf, err)
	}
	if n := readNode(t, p); n.Cert.Serial != leaf.SerialNumber.Text(16) || n.Cert.Generation != 1 {
		t.Errorf("read model %+v", n.Cert)
	}
	if status, _, again := enroll(token, platformtest.NodeID, request); status != 200 || again.Generation != 2 {
		t.Errorf("the same key again, at once: %d generation %d", status, again.Generation)
	}
	if status, code, _ := enroll(token, platformtest.NodeID, csr(t, "")); status != 401 || code != wire.DenyTokenConsumed {
		t.Errorf("another key: %d %s", status, code)
	}
	clk.advance(5 * time.Minute)
	if status, code, _ := enroll(token, platformtest.NodeID, request); status != 401 || code != wire.DenyTokenConsumed {
		t.Errorf("the same key, later: %d %s", status, code)
	}
	reenroll(t, p, enroll)
	clk.advance(2 * time.Hour)
	if status, code, _ := enroll(p.EnrollmentToken("compute-node-02").Reveal(), "compute-node-02", csr(t, "")); status != 401 || code != wire.DenyTokenExpired {
		t.Errorf("old token: %d %s", status, code)
	}
}

// reenroll issues a bundle and uses it.
func reenroll(t *testing.T, p *platformtest.Platform, enroll func(string, string, string) (int, string, wire.EnrollResponse)) {
	t.Helper()
	var bundle struct {
		Token       string
		CABundle    string `json:"ca_bundle"`
		APIURL      string `json:"api_url"`
		TerminalURL string `json:"terminal_url"`
	}
	status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/reenroll", map[string]string{"reason": "test"}, &bundle, wire.HeaderCorrelationID, correlationID)
	if status != 200 || bundle.CABundle != p.CAPEM || bundle.APIURL != p.NodeAPIURL || bundle.TerminalURL != p.NodeTerminalURL {
		t.Fatalf("bundle: %d %+v", status, bundle)
	}
	if status, code, out := enroll(bundle.Token, platformtest.NodeID, csr(t, "")); status != 200 || out.Generation != 3 {
		t.Errorf("re-enroll: %d %s generation %d", status, code, out.Generation)
	}
	wantEvidence(t, p, correlationID, "node.reenroll_issued")
	if n := readNode(t, p); n.LatestOperation.Type != "reenroll" {
		t.Errorf("latest operation %+v", n.LatestOperation)
	}
}

func TestTaskLife(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now, Config: func(c *platform.Config) { c.Policy.TaskStaleSweepInterval = 3600 }})
	cred := p.Enroll(platformtest.NodeID)
	result := func(id string, r wire.TaskResult) (int, string) {
		var e wire.ErrorBody
		status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id), r, &e)
		return status, e.Error.Code
	}
	id := enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 30})
	if status, code := result(id, completed()); status != 409 || code != "task_not_claimed" {
		t.Errorf("result before the claim: %d %s", status, code)
	}
	if status, code := result("task-none", completed()); status != 404 || code != "task_not_found" {
		t.Errorf("result of no task: %d %s", status, code)
	}
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath, nil, nil); status != 200 {
		t.Fatalf("claim: %d", status)
	}
	if status, code := result(id, wire.TaskResult{Status: "great"}); status != 400 || code != "status_invalid" {
		t.Errorf("result in another word: %d %s", status, code)
	}
	r := completed()
	r.Output = []byte(`{"n":1}`)
	if status, _ := result(id, r); status != 200 {
		t.Errorf("result: %d", status)
	}
	if status, _ := result(id, wire.TaskResult{Status: wire.TaskFailed}); status != 200 {
		t.Errorf("result again: %d", status)
	}
	if task := readTask(t, p, id); task.Status != wire.TaskCompleted || task.Result.Output["n"] != 1.0 {
		t.Errorf("task %+v", task)
	}

	late, never := enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 30}), enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 30})
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath, nil, nil); status != 200 {
		t.Fatalf("claim: %d", status)
	}
	clk.advance(31 * time.Second)
	if n := readNode(t, p); n.StaleTasks != 2 || n.Recovery.Checklist[4].Status != "fail" {
		t.Errorf("before the sweep: %d stale tasks, %+v", n.StaleTasks, n.Recovery)
	}
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil); status != 204 {
		t.Errorf("an expired task was handed out: %d", status)
	}
	if n, err := p.Sweep(t.Context()); err != nil || n != 2 {
		t.Errorf("sweep: %d %v", n, err)
	}
	if n := readNode(t, p); n.StaleTasks != 0 || n.LatestOperation.ID == "" || n.LatestOperation.Status != wire.TaskCompleted {
		t.Errorf("after the sweep: %+v", n)
	}
	for _, id := range []string{late, never} {
		if task := readTask(t, p, id); task.Status != wire.TaskExpired {
			t.Errorf("task %+v", task)
		}
	}
	if status, code := result(never, completed()); status != 409 {
		t.Errorf("result of an unclaimed, expired task: %d %s", status, code)
	}
	if status, _ := result(late, completed()); status != 200 || readTask(t, p, late).Status != wire.TaskCompleted {
		t.Errorf("a late result was not taken: %d", status)
	}
	wantEvidence(t, p, correlationID, "task.queued", "task.dispatched", "task.completed", "task.expired", "task.result_late")
}

func TestHeartbeatAndReadModel(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now})
	n := readNode(t, p)
	if n.Health != "UNKNOWN" || n.Recovery.State == "normal" || n.TerminalReadiness != "unknown" {
		t.Errorf("a node that never spoke: %+v", n)
	}
	for i, want := range []string{"unknown", "unknown", "unknown", "unknown", "pass"} {
		if c := n.Recovery.Checklist[i]; c.Status != want {
			t.Errorf("a node that never spoke: %+v, want %s", c, want)
		}
	}
	cred := p.Enroll(platformtest.NodeID)
	beat := wire.HeartbeatRequest{NodeInstanceID: "machine-1", BootID: "boot-1", AgentVersion: "v1", APIURL: p.NodeAPIURL, TerminalURL: p.NodeTerminalURL, At: time.Now()}
	send := func() http.Header {
		t.Helper()
		var out wire.HeartbeatResponse
		status, header := p.DoNode(cred, http.MethodPost, path(wire.PathHeartbeat, platformtest.NodeID), beat, &out, wire.HeaderCorrelationID, correlationID)
		if status != 200 || out.Time.IsZero() {
			t.Fatalf("heartbeat: %d %+v", status, out)
		}
		return header
	}
	if from := send().Get(wire.HeaderReplayFrom); from != "1" {
		t.Errorf("replay from %q", from)
	}
	id := enqueue(t, p, map[string]any{"type": "noop"})
	p.DoNode(cred, http.MethodGet, waitPath, nil, nil)
	p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id), completed(), nil)
	n = readNode(t, p)
	if n.NodeInstanceID != "machine-1" || n.Agent.Version != "v1" || n.Agent.LastSeenAt == "" || n.Agent.APIURL != p.NodeAPIURL || n.Now == "" || n.Cert.NotAfter == "" {
		t.Errorf("read model %+v", n)
	}
	if n.Recovery.Reason != "none" || n.Recovery.State != "normal" || len(n.Recovery.Checklist) != 5 {
		t.Errorf("five of five: %+v", n.Recovery)
	}
	beat.TerminalURL = "https://elsewhere.gpuaas.test"
	send()
	if n = readNode(t, p); n.Recovery.Reason != "endpoint_profile_drift" {
		t.Errorf("another terminal URL: %+v", n.Recovery)
	}
	beat.TerminalURL = p.NodeTerminalURL
	send()
	clk.advance(9 * time.Second)
	if n = readNode(t, p); n.Recovery.Reason != "node_agent_unreachable" || n.Recovery.State != "temporary" || n.Recovery.Checklist[0].Status != "fail" {
		t.Errorf("stale: %+v", n.Recovery)
	}
	wantEvidence(t, p, correlationID, "node.heartbeat_changed")
}

func TestEvents(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	send := func(instance string, seqs ...uint64) uint64 {
		t.Helper()
		in := wire.EventsRequest{NodeInstanceID: instance}
		for _, s := range seqs {
			in.Events = append(in.Events, wire.Event{Seq: s, Kind: "process_alive", At: time.Now(), CorrelationID: correlationID})
		}
		var out wire.EventsResponse
		if status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathEvents, platformtest.NodeID), in, &out); status != 200 {
			t.Fatalf("events: %d", status)
		}
		return out.Watermark
	}
	for _, c := range []struct {
		instance string
		seqs     []uint64
		want     uint64
	}{{"a", []uint64{1, 2}, 2}, {"a", []uint64{2, 4, 5}, 2}, {"b", []uint64{1}, 1}, {"a", []uint64{3}, 5}, {"a", nil, 5}} {
		if got := send(c.instance, c.seqs...); got != c.want {
			t.Errorf("%s %v: watermark %d, want %d", c.instance, c.seqs, got, c.want)
		}
	}
	rows, err := p.Store().EvidenceBy(t.Context(), correlationID, "")
	if err != nil || len(rows) != 6 {
		t.Errorf("%d events recorded once each, %v", len(rows), err)
	}
	if status, _ := p.DoNode(cred, http.MethodPost, path(wire.PathEvents, platformtest.NodeID), wire.EventsRequest{NodeInstanceID: "a", Events: []wire.Event{{}}}, nil); status != 400 {
		t.Errorf("an event without a number: %d", status)
	}
}

func TestTooManyWaits(t *testing.T) {
	t.Parallel()
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	answers := make(chan int, 5)
	for range 5 {
		go func() {
			status, header := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=1", nil, nil)
			if status == 429 && header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After %q", header.Get("Retry-After"))
			}
			answers <- status
		}()
	}
	count := map[int]int{}
	for range 5 {
		count[<-answers]++
	}
	if count[204] != 4 || count[429] != 1 {
		t.Errorf("answers %v", count)
	}
}

// TestSweepLoop: nobody has to ask for it.
func TestSweepLoop(t *testing.T) {
	t.Parallel()
	p := platformtest.StartPlatform(t, platformtest.Options{})
	id := enqueue(t, p, map[string]any{"type": "noop", "ttl_seconds": 1})
	eventually(t, "the task is expired", func() bool { return readTask(t, p, id).Status == wire.TaskExpired })
}
