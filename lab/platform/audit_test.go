package platform_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/lab/platform/store"
	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
)

type auditRow struct {
	Phase, Action, Reason string
	ActorType             string `json:"actor_type"`
	ActorID               string `json:"actor_id"`
	AppInstanceID         string `json:"app_instance_id"`
	CorrelationID         string `json:"correlation_id"`
	KeyHash               string `json:"dedupe_key_hash"`
	FirstSeenAt           string `json:"first_seen_at"`
	LastSeenAt            string `json:"last_seen_at"`
	Count                 int64
}

func auditRows(t *testing.T, p *platformtest.Platform, query string) []auditRow {
	t.Helper()
	var out struct{ Items []auditRow }
	if status, _ := p.Do(http.MethodGet, "/v1/admin/audit"+query, nil, &out); status != 200 {
		t.Fatalf("audit: %d", status)
	}
	return out.Items
}

// phases returns the audit as "phase count" words.
func phases(rows []auditRow) string {
	words := make([]string, len(rows))
	for i, r := range rows {
		words[i] = r.Phase + " " + strings.Repeat("i", int(r.Count))
	}
	return strings.Join(words, ", ")
}

// TestAuditOfADeniedNode: the audit has a first row, a summary for each further window, and a row at the recovery.
func TestAuditOfADeniedNode(t *testing.T) {
	clk := &clock{}
	var log logtest.Log
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now, Log: &log})
	cred := p.Enroll(platformtest.NodeID)
	p.SetIdentity(platformtest.NodeID, wire.DenyFenced)
	for range 3 {
		beat(t, p, cred, wire.HeartbeatRequest{})
		clk.advance(time.Minute)
	}
	if got := phases(auditRows(t, p, "?action=node.authenticate")); got != "first i" {
		t.Errorf("within the window: %q", got)
	}
	clk.advance(3 * time.Minute)
	beat(t, p, cred, wire.HeartbeatRequest{})
	beat(t, p, cred, wire.HeartbeatRequest{})
	p.SetIdentity(platformtest.NodeID, "")
	beat(t, p, cred, wire.HeartbeatRequest{})
	beat(t, p, cred, wire.HeartbeatRequest{})
	rows := auditRows(t, p, "?action=node.authenticate")
	if got := phases(rows); got != "first i, summary iiii, recovery iiiii" {
		t.Errorf("the whole of it: %q", got)
	}
	for _, r := range rows {
		if r.ActorType != "node" || r.ActorID != platformtest.NodeID || r.Reason != wire.DenyFenced ||
			r.FirstSeenAt != rows[0].FirstSeenAt || r.KeyHash != rows[0].KeyHash {
			t.Errorf("row %+v", r)
		}
	}
	// every occurrence, and the recovery
	if text := log.String(); strings.Count(text, `"dedupe_key_hash":"`+rows[0].KeyHash+`"`) != 6 {
		t.Errorf("log lines of the key: %d", strings.Count(text, rows[0].KeyHash))
	}
}

// TestStrangersFillNoAudit: names of unknown nodes share one row.
func TestStrangersFillNoAudit(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	for _, name := range []string{"x1", "x2", "x3"} {
		enrollAs(t, p, "no such token", wire.EnrollRequest{NodeID: name})
	}
	if rows := auditRows(t, p, "?action=node.enroll"); len(rows) != 1 || rows[0].ActorID != "unknown" {
		t.Errorf("audit %+v", rows)
	}
}

// TestCredentialReports: a credential that keeps failing is one action item.
func TestCredentialReports(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now})
	const base = "/v1/admin/allocations/" + platformtest.AllocationID
	type answer struct {
		App struct {
			Credential *struct {
				Healthy     bool
				Reason      string
				FirstSeenAt string `json:"first_seen_at"`
				LastSeenAt  string `json:"last_seen_at"`
				Count       int64
			}
		}
		wire.ErrorBody
	}
	report := func(healthy bool, reason string) (int, answer) {
		t.Helper()
		var a answer
		status, _ := p.Do(http.MethodPost, base+"/credential-report",
			map[string]any{"credential_id": "hub-token", "healthy": healthy, "reason": reason}, &a)
		return status, a
	}
	if status, a := report(false, "401: token abc.def was refused"); status != 400 || a.Error.Code != "report_invalid" {
		t.Errorf("a provider's text is no reason: %d %s", status, a.Error.Code)
	}
	for range 3 {
		report(false, "token_expired")
		clk.advance(time.Minute)
	}
	_, a := report(false, "token_expired")
	if c := a.App.Credential; c == nil || c.Healthy || c.Count != 4 || c.Reason != "token_expired" ||
		c.FirstSeenAt >= c.LastSeenAt {
		t.Fatalf("failing: %+v", c)
	}
	if _, a = report(true, ""); !a.App.Credential.Healthy || a.App.Credential.Count != 1 {
		t.Errorf("healthy: %+v", a.App.Credential)
	}
	if got := phases(auditRows(t, p, "?app_instance_id="+platformtest.AllocationID)); got != "first i, recovery iiii" {
		t.Errorf("audit: %q", got)
	}
}

// TestTwoCredentials: an application's two credentials are independent. Each has its own failure in the audit, and
// the tenant's state is that of the failing one, until that works or is no longer in use.
func TestTwoCredentials(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now, Config: func(c *platform.Config) {
		slowSweeps(c)
		c.Policy.HeartbeatStaleAfter = 2 * int64(store.QuietAfter/time.Second)
	}})
	beat(t, p, p.Enroll(platformtest.NodeID), wire.HeartbeatRequest{})
	report := func(id string, healthy bool) (word string) {
		t.Helper()
		in := map[string]any{"credential_id": id, "healthy": healthy}
		if !healthy {
			in["reason"] = "token_expired"
		}
		var a struct {
			App struct {
				Credential struct{ ID string }
			}
			Recovery struct{ Reason string }
		}
		if status, _ := p.Do(http.MethodPost, "/v1/admin/allocations/"+platformtest.AllocationID+"/credential-report", in,
			&a); status != 200 {
			t.Fatalf("report: %d", status)
		}
		clk.advance(time.Second)
		return a.App.Credential.ID + " " + a.Recovery.Reason
	}
	for range 3 {
		if got := report("a", false); got != "a app_credential_failing" {
			t.Errorf("one fails: %s", got)
		}
		if got := report("b", true); got != "a app_credential_failing" {
			t.Errorf("one fails, and the other is well: %s", got)
		}
	}
	rows := func() string { return phases(auditRows(t, p, "?app_instance_id="+platformtest.AllocationID)) }
	if got := rows(); got != "first i" {
		t.Errorf("audit: %q", got)
	}
	if got := report("a", true); got != "a none" {
		t.Errorf("both are well: %s", got)
	}
	if got := rows(); got != "first i, recovery iii" {
		t.Errorf("audit: %q", got)
	}
	report("a", false)
	clk.advance(store.QuietAfter)
	if got := report("b", true); got != "b none" {
		t.Errorf("nobody uses the one that failed: %s", got)
	}
}

// TestMetrics: labels have a closed set of values, and only the operator can read the metrics.
func TestMetrics(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	p.Enroll(platformtest.NodeID)
	enrollAs(t, p, "no such token", wire.EnrollRequest{NodeID: "made-up"})
	get := func(token string) (int, string) {
		req, err := http.NewRequestWithContext(short(t), http.MethodGet, p.APIBase+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := p.Client().Do(req)
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
	if status, _ := get("wrong"); status != 401 {
		t.Errorf("a stranger: %d", status)
	}
	_, text := get(p.OperatorToken.Reveal())
	for _, want := range []string{"gpuaas_platform_enrollments_total 1\n",
		`gpuaas_platform_enrollments_denied_total{reason="unauthorized"} 1` + "\n",
		"# TYPE gpuaas_platform_node_denials_total counter\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "made-up") || strings.Contains(text, platformtest.NodeID) {
		t.Errorf("an id is a label:\n%s", text)
	}
}
