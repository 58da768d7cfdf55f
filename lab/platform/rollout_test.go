package platform_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

const aPackage = "a package of the agent"

var (
	prior    = wire.Build{Version: "v1", SHA256: strings.Repeat("a1", 32)}
	targeted = wire.Build{Version: "v2", SHA256: hexSHA(aPackage)}
)

func hexSHA(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// fleet is a platform with one package, and a node that the test plays.
type fleet struct {
	t    *testing.T
	p    *platformtest.Platform
	cred platformtest.Credential
	seq  uint64
}

func newFleet(t *testing.T, edit ...func(*platform.Config)) *fleet {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, targeted.SHA256), []byte(aPackage), 0o600); err != nil {
		t.Fatal(err)
	}
	p := platformtest.StartPlatform(t,
		platformtest.Options{Nodes: []platform.SeedNode{{ID: platformtest.NodeID}, {ID: otherNode}},
			Config: func(c *platform.Config) {
				c.Artifacts = dir
				for _, e := range edit {
					e(c)
				}
			}})
	f := &fleet{t: t, p: p, cred: p.Enroll(platformtest.NodeID)}
	// events of a host are accepted after its first heartbeat
	beat(t, p, f.cred, wire.HeartbeatRequest{NodeInstanceID: "m1", BootID: "b1"})
	return f
}

// order orders the update and returns the task's id, or the code of the refusal.
func (f *fleet) order(body any) string {
	f.t.Helper()
	var out struct {
		ID    string         `json:"id"`
		Error wire.ErrorInfo `json:"error"`
	}
	f.p.Do(http.MethodPost, "/v1/admin/nodes/"+platformtest.NodeID+"/rollouts", body, &out, wire.HeaderCorrelationID,
		correlationID)
	return out.ID + out.Error.Code
}

func (f *fleet) take() (task wire.Task, status int) {
	f.t.Helper()
	status, _ = f.p.DoNode(f.cred, http.MethodGet, path(wire.PathTaskWait, platformtest.NodeID)+"?timeout=0", nil, &task)
	return task, status
}

func (f *fleet) boot(running wire.Build, ro *wire.Rollout) wire.HeartbeatResponse {
	f.t.Helper()
	var out wire.HeartbeatResponse
	status, _ := f.p.DoNode(f.cred, http.MethodPost, path(wire.PathHeartbeat, platformtest.NodeID),
		wire.HeartbeatRequest{NodeInstanceID: "m1", BootID: "b1",
			AgentVersion: running.Version, Boot: &wire.BootReport{Running: running, Package: prior, Rollout: ro}}, &out)
	if status != http.StatusOK {
		f.t.Fatalf("heartbeat: %d", status)
	}
	return out
}

func (f *fleet) tell(ro wire.Rollout) {
	f.t.Helper()
	f.seq++
	detail, err := json.Marshal(wire.UpdateEvent{Key: ro.State, Decision: ro.State, Rollout: &ro})
	if err != nil {
		f.t.Fatal(err)
	}
	if status, _ := f.p.DoNode(f.cred, http.MethodPost, path(wire.PathEvents, platformtest.NodeID),
		wire.EventsRequest{NodeInstanceID: "m1",
			Events: []wire.Event{{Seq: f.seq, At: time.Now(), Kind: wire.EventSelfUpdate, CorrelationID: ro.CorrelationID,
				Detail: detail}}}, nil); status != http.StatusOK {
		f.t.Fatalf("events: %d", status)
	}
}

func (f *fleet) rollout(id string) (ro wire.Rollout) {
	f.t.Helper()
	f.p.Do(http.MethodGet, "/v1/admin/rollouts/"+id, nil, &ro)
	return ro
}

func (f *fleet) taskStatus(id string) string {
	f.t.Helper()
	var task struct {
		Status string `json:"status"`
	}
	f.p.Do(http.MethodGet, "/v1/admin/tasks/"+id, nil, &task)
	return task.Status
}

func (f *fleet) has(kinds ...string) {
	f.t.Helper()
	wantEvidence(f.t, f.p, correlationID, kinds...)
}

func (f *fleet) step(id, state string) wire.Rollout {
	return wire.Rollout{ID: id, CorrelationID: correlationID, State: state, Prior: prior, Target: targeted,
		VerifierSet: "set", Token: "unchanged"}
}

func TestRolloutOrders(t *testing.T) {
	f := newFleet(t)
	for name, c := range map[string]struct {
		body any
		want string
	}{
		"another field": {map[string]any{"version": "v2", "sha256": targeted.SHA256, "api_url": "https://x"},
			"update_boundary"},
		"no digest":       {map[string]any{"version": "v2"}, "sha256_invalid"},
		"no version":      {map[string]any{"sha256": targeted.SHA256}, "version_invalid"},
		"no such package": {map[string]any{"version": "v3", "sha256": strings.Repeat("c3", 32)}, "artifact_missing"},
		"no overlap of keys": {map[string]any{"version": "v2", "sha256": targeted.SHA256,
			"task_signing_pubkeys": "other:" + strings.Repeat("A", 43) + "="}, "verifier_overlap_missing"},
	} {
		if got := f.order(c.body); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if id := f.order(map[string]any{"version": "v2", "sha256": targeted.SHA256}); !strings.HasPrefix(id, "task-") {
		t.Fatalf("order: %s", id)
	}
	if got := f.order(map[string]any{"version": "v2", "sha256": targeted.SHA256}); got != "rollout_active" {
		t.Errorf("a second one: %s", got)
	}
}

// TestOneRolloutAtATime: of concurrent orders one is accepted, and the others leave no task behind.
func TestOneRolloutAtATime(t *testing.T) {
	// an in-memory database would serialize them
	f := newFleet(t, func(c *platform.Config) { c.Database = filepath.Join(t.TempDir(), "platform.db") })
	answers, begin := make(chan string, 8), make(chan struct{})
	for range cap(answers) {
		go func() {
			<-begin
			answers <- f.order(map[string]any{"version": "v2", "sha256": targeted.SHA256})
		}()
	}
	close(begin)
	taken := 0
	for range cap(answers) {
		switch got := <-answers; {
		case strings.HasPrefix(got, "task-"):
			taken++
		case got != "rollout_active":
			t.Errorf("answer %s", got)
		}
	}
	if open, err := f.p.Store().OpenByCorrelation(t.Context(), platformtest.NodeID, wire.TaskSelfUpdate,
		correlationID); taken != 1 || open != 1 || err != nil {
		t.Errorf("%d taken, %d tasks, %v", taken, open, err)
	}
}

// TestRolloutOfAnotherNode: a host that used to be another node reports that node's rollout. Its heartbeat is
// accepted, and the rollout still belongs to the other node.
func TestRolloutOfAnotherNode(t *testing.T) {
	f := newFleet(t)
	id := f.order(map[string]any{"version": "v2", "sha256": targeted.SHA256})
	other := f.p.Enroll(otherNode)
	ended := f.step(id, wire.RolloutConverged)
	status, _ := f.p.DoNode(other, http.MethodPost, path(wire.PathHeartbeat, otherNode),
		wire.HeartbeatRequest{NodeInstanceID: "m2", BootID: "b2",
			Boot: &wire.BootReport{Running: targeted, Rollout: &ended}}, nil)
	if status != http.StatusOK {
		t.Errorf("heartbeat: %d", status)
	}
	var ro struct {
		wire.Rollout
		NodeID string `json:"node_id"`
	}
	if f.p.Do(http.MethodGet, "/v1/admin/rollouts/"+id, nil, &ro); ro.State != wire.RolloutPending ||
		ro.NodeID != platformtest.NodeID {
		t.Errorf("rollout %+v", ro)
	}
	if strings.Contains(evidenceOf(t, f.p, otherNode), "rollout.") {
		t.Error("the other node's evidence tells of it")
	}
}

// TestRolloutBoots has the five cases of a boot, from the platform's view.
func TestRolloutBoots(t *testing.T) {
	ordered := func(t *testing.T) (*fleet, string) {
		f := newFleet(t)
		f.boot(prior, nil)
		return f, f.order(map[string]any{"version": "v2", "sha256": targeted.SHA256})
	}
	t.Run("fresh", func(t *testing.T) {
		f := newFleet(t)
		if got := f.boot(prior, nil); got.Running == nil || *got.Running != prior || len(got.Snapshots) != 0 {
			t.Errorf("answer %+v", got)
		}
	})
	t.Run("before activate, nothing known to the node", func(t *testing.T) {
		f, id := ordered(t)
		if task, _ := f.take(); task.ID != id {
			t.Fatalf("task %+v", task)
		}
		f.boot(prior, nil)
		if task, status := f.take(); status != http.StatusOK || task.ID != id {
			t.Errorf("the task is not handed out again: %d", status)
		}
		f.has("rollout.redispatched")
	})
	t.Run("before activate, the node goes on", func(t *testing.T) {
		f, id := ordered(t)
		f.take()
		ro := f.step(id, wire.RolloutPending)
		f.boot(prior, &ro)
		if _, status := f.take(); status != http.StatusNoContent {
			t.Errorf("the task is handed out twice: %d", status)
		}
	})
	t.Run("in activate, the target runs and nobody said so", func(t *testing.T) {
		f, id := ordered(t)
		f.take()
		ro := f.step(id, wire.RolloutVerified)
		if got := f.boot(targeted, &ro); got.Running == nil || *got.Running != targeted {
			t.Errorf("answer %+v", got)
		}
		if got := f.rollout(id); got.State != wire.RolloutActivating {
			t.Errorf("rollout %+v", got)
		}
		f.has("rollout.activation_synthesised")
	})
	t.Run("in soak, probes are given back", func(t *testing.T) {
		f, id := ordered(t)
		f.take()
		ro := f.step(id, wire.RolloutSoaking)
		ro.Probes = map[string]wire.ProbeState{wire.ProbeTaskWait: {Pass: true, At: time.Now()}}
		f.tell(ro)
		bare := f.step(id, wire.RolloutSoaking)
		got := f.boot(targeted, &bare)
		if len(got.Snapshots) != 1 || got.Snapshots[0].Rollout == nil ||
			!got.Snapshots[0].Rollout.Probes[wire.ProbeTaskWait].Pass {
			t.Fatalf("snapshots %+v", got.Snapshots)
		}
		if task, _ := f.take(); task.Type != wire.TaskNoop || task.CorrelationID != correlationID {
			t.Errorf("no no-op for the soak: %+v", task)
		}
	})
	t.Run("after converge", func(t *testing.T) {
		f, id := ordered(t)
		f.take()
		ro := f.step(id, wire.RolloutConverged)
		f.tell(ro)
		f.boot(targeted, &ro)
		if got := f.taskStatus(id); got != wire.TaskCompleted {
			t.Errorf("the task is %s", got)
		}
		if _, status := f.take(); status != http.StatusNoContent {
			t.Error("there is something left to do")
		}
	})
}

// TestRolloutOrder: events may arrive late, twice, and in any order.
func TestRolloutOrder(t *testing.T) {
	f := newFleet(t)
	id := f.order(map[string]any{"version": "v2", "sha256": targeted.SHA256})
	f.take()
	for _, state := range []string{wire.RolloutSoaking, wire.RolloutPending, wire.RolloutReverted, wire.RolloutActivating,
		wire.RolloutConverged, wire.RolloutReverted} {
		f.tell(f.step(id, state))
	}
	if got := f.rollout(id); got.State != wire.RolloutReverted {
		t.Errorf("rollout %+v", got)
	}
	if got := f.taskStatus(id); got != wire.TaskFailed {
		t.Errorf("the task is %s", got)
	}
}

// TestRolloutAdopted: a platform that has lost its state learns the rollout from the node.
func TestRolloutAdopted(t *testing.T) {
	f := newFleet(t)
	ro := f.step("task-of-another-life", wire.RolloutSoaking)
	got := f.boot(targeted, &ro)
	if len(got.Snapshots) != 1 || got.Snapshots[0].Rollout.State != wire.RolloutSoaking {
		t.Fatalf("snapshots %+v", got.Snapshots)
	}
	f.has("rollout.adopted")
}

func TestRolloutRefusedByTheNode(t *testing.T) {
	f := newFleet(t)
	id := f.order(map[string]any{"version": "v2", "sha256": targeted.SHA256})
	f.take()
	f.p.DoNode(f.cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", id),
		wire.TaskResult{Status: wire.TaskFailed,
			Error: &wire.ErrorInfo{Code: "version_skipped", Message: "tried"}}, nil)
	if got := f.rollout(id); got.State != wire.RolloutFailed || !strings.Contains(got.Result, "version_skipped") {
		t.Errorf("rollout %+v", got)
	}
}

// TestRolloutToken: the token is minted for the response that hands the task out, and is nowhere else.
func TestRolloutToken(t *testing.T) {
	f := newFleet(t)
	id := f.order(map[string]any{"version": "v2", "sha256": targeted.SHA256, "refresh_token": true})
	task, _ := f.take()
	var payload wire.SelfUpdatePayload
	if err := json.Unmarshal(task.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	claims, ok := wire.ParseToken(payload.RecoveryToken)
	if !ok || claims.NodeID != platformtest.NodeID || !time.Now().Before(claims.ExpiresAt) {
		t.Fatalf("claims %+v", claims)
	}
	kept, err := f.p.Store().Task(t.Context(), id)
	if err != nil || strings.Contains(string(kept.Payload), payload.RecoveryToken) {
		t.Errorf("the task as it is kept: %s, %v", kept.Payload, err)
	}
	rows, err := f.p.Store().EvidenceBy(t.Context(), correlationID, "")
	text, _ := json.Marshal(rows)
	if err != nil || strings.Contains(string(text), payload.RecoveryToken) {
		t.Errorf("the evidence holds the token, or %v", err)
	}
}

func TestArtifacts(t *testing.T) {
	f := newFleet(t)
	get := func(client *http.Client, sha string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			f.p.NodeAPIURL+strings.ReplaceAll(wire.PathArtifact, "{sha256}", sha), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	client := f.p.NodeClient(f.cred)
	if status, body := get(client, targeted.SHA256); status != http.StatusOK || body != aPackage {
		t.Errorf("%d %q", status, body)
	}
	if status, _ := get(client, strings.Repeat("0", 64)); status != http.StatusNotFound {
		t.Errorf("of no such digest: %d", status)
	}
	if status, _ := get(client, "..%2F..%2Fetc%2Fpasswd"); status != http.StatusNotFound {
		t.Errorf("of another path: %d", status)
	}
	if status, body := get(f.p.Client(), targeted.SHA256); status == http.StatusOK || strings.Contains(body, aPackage) {
		t.Errorf("without a certificate: %d", status)
	}
}

// TestEventsThatAreGone: events that a node has lost do not hold up the ones that it has.
func TestEventsThatAreGone(t *testing.T) {
	f := newFleet(t)
	var out wire.EventsResponse
	f.p.DoNode(f.cred, http.MethodPost, path(wire.PathEvents, platformtest.NodeID),
		wire.EventsRequest{NodeInstanceID: "m1", Oldest: 7,
			Events: []wire.Event{{Seq: 7, At: time.Now(), Kind: "decision"}}}, &out)
	if out.Watermark != 7 {
		t.Errorf("watermark %d", out.Watermark)
	}
}

// TestImpossibleNumbersAreRefused: a jump of sequence numbers, and an oldest event that is not in the request, are
// refused with evidence, and move nothing.
func TestImpossibleNumbersAreRefused(t *testing.T) {
	f := newFleet(t)
	for _, c := range []struct {
		oldest, seq uint64
		status      int
	}{
		{1<<63 - 2, 1, http.StatusBadRequest}, {2, 1, http.StatusBadRequest}, {wire.MaxJump + 2, wire.MaxJump + 2, 409},
		{1, wire.MaxJump + 2, 409}, {1, wire.MaxSeq + 1, http.StatusBadRequest},
	} {
		status, _ := f.p.DoNode(f.cred, http.MethodPost, path(wire.PathEvents, platformtest.NodeID),
			wire.EventsRequest{NodeInstanceID: "m1", Oldest: c.oldest,
				Events: []wire.Event{{Seq: c.seq, At: time.Now(), Kind: "decision"}}}, nil)
		if status != c.status {
			t.Errorf("oldest %d, seq %d: %d, want %d", c.oldest, c.seq, status, c.status)
		}
	}
	if mark, err := f.p.Store().Watermark(t.Context(), platformtest.NodeID, "m1"); mark != 0 || err != nil {
		t.Errorf("watermark %d, %v", mark, err)
	}
	rows, err := f.p.Store().Recent(t.Context(), store.NodeEventsRefused, 10)
	if err != nil || len(rows) != 5 {
		t.Errorf("%d rows of evidence, %v", len(rows), err)
	}
}
