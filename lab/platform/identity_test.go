package platform_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

const otherNode = "compute-node-02"

// beat sends a heartbeat as a host, and returns the denial's code.
func beat(t *testing.T, p *platformtest.Platform, c platformtest.Credential, h wire.HeartbeatRequest,
	header ...string) string {
	t.Helper()
	if h.NodeInstanceID == "" {
		h.NodeInstanceID = "host-a"
	}
	var e wire.ErrorBody
	status, _ := p.DoNode(c, http.MethodPost, path(wire.PathHeartbeat, c.NodeID), h, &e, header...)
	if status == 200 != (e.Error.Code == "") {
		t.Fatalf("heartbeat: %d %+v", status, e)
	}
	return e.Error.Code
}

// decide posts an operator's decision.
func decide(t *testing.T, p *platformtest.Platform, nodeID, action string, in map[string]any) (int, string) {
	t.Helper()
	var e wire.ErrorBody
	status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+nodeID+"/"+action, reasoned(in), &e, wire.HeaderCorrelationID,
		"decision-"+action)
	return status, e.Error.Code
}

// reasoned adds a reason to a decision that has none.
func reasoned(in map[string]any) map[string]any {
	out := map[string]any{"reason": "a test"}
	maps.Copy(out, in)
	return out
}

// TestADecisionNeedsAReason: the audit of a decision has its reason; a decision without one is refused.
func TestADecisionNeedsAReason(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{Allocations: []platform.SeedAllocation{
		{ID: "alloc-stuck", NodeID: platformtest.NodeID, State: "release_failed", OSUser: "tenant"}}})
	p.Enroll(platformtest.NodeID)
	for _, at := range []string{"nodes/" + platformtest.NodeID + "/fence", "nodes/" + platformtest.NodeID + "/revoke",
		"nodes/" + platformtest.NodeID + "/retire", "nodes/" + platformtest.NodeID + "/reactivate",
		"nodes/" + platformtest.NodeID + "/reenroll", "allocations/alloc-stuck/force-release"} {
		for _, in := range []map[string]any{nil, {"by": "ada"}, {"reason": " \n"}} {
			var e wire.ErrorBody
			if status, _ := p.Do(http.MethodPost, "/v1/admin/"+at, in, &e); status != 400 || e.Error.Code != "reason_required" ||
				!strings.Contains(e.Error.Message, "field reason") {
				t.Errorf("%s with %v: %d %+v", at, in, status, e.Error)
			}
		}
	}
	if n := readNode(t, p); n.Identity != "accepted" || len(auditRows(t, p, "")) != 0 {
		t.Errorf("something was decided: %s, %+v", n.Identity, auditRows(t, p, ""))
	}
}

// TestNoBundleWhileTheIngressTrustsAnotherCA: the bundle's certificate would be rejected like the old one. An
// operator may override that, and the audit records it.
func TestNoBundleWhileTheIngressTrustsAnotherCA(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	p.Enroll(platformtest.NodeID)
	p.WriteIngressCA([]byte(p.CAPEM))
	if status, code, b := bundleOf(t, p, platformtest.NodeID, nil); status != 409 || code != "cert_untrusted_by_ingress" ||
		b.Token != "" {
		t.Errorf("refused: %d %s", status, code)
	}
	if rows := auditRows(t, p, "?action=node.reenroll"); len(rows) != 0 {
		t.Errorf("audit of nothing: %+v", rows)
	}
	if status, code, b := bundleOf(t, p, platformtest.NodeID,
		map[string]any{"force": true, "reason": "the ingress follows"}); status != 200 || b.Token == "" {
		t.Errorf("forced: %d %s", status, code)
	}
	if rows := auditRows(t, p, "?action=node.reenroll"); len(rows) != 1 ||
		rows[0].Reason != "forced, cert_untrusted_by_ingress: the ingress follows" {
		t.Errorf("audit %+v", rows)
	}
}

// bundleOf issues a recovery bundle.
func bundleOf(t *testing.T, p *platformtest.Platform, nodeID string, in map[string]any) (int, string, wire.Bundle) {
	t.Helper()
	var out struct {
		wire.Bundle
		wire.ErrorBody
	}
	status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+nodeID+"/reenroll", reasoned(in), &out, wire.HeaderCorrelationID,
		"bundle-1")
	return status, out.Error.Code, out.Bundle
}

// enrollAs enrolls with a token, and returns the denial's code.
func enrollAs(t *testing.T, p *platformtest.Platform, token string,
	in wire.EnrollRequest) (string, wire.EnrollResponse) {
	t.Helper()
	in.CSR = csr(t, in.NodeID)
	var out struct {
		wire.EnrollResponse
		wire.ErrorBody
	}
	post(t, p, p.NodeAPIURL+wire.PathEnroll, token, in, &out)
	return out.Error.Code, out.EnrollResponse
}

// everywhere requests every route of a node, including the terminal stream and enrollment, and returns the code of
// each.
func everywhere(t *testing.T, p *platformtest.Platform, c platformtest.Credential, token string,
	header ...string) map[string]string {
	t.Helper()
	codes := map[string]string{}
	ask := func(name, method, template string, in any) {
		var e wire.ErrorBody
		p.DoNode(c, method, path(template, c.NodeID), in, &e, header...)
		codes[name] = e.Error.Code
	}
	ask("wait", http.MethodGet, wire.PathTaskWait+"?timeout=0", nil)
	ask("result", http.MethodPost, strings.ReplaceAll(wire.PathTaskResult, "{task_id}", "task-none"), completed())
	ask("events", http.MethodPost, wire.PathEvents, wire.EventsRequest{NodeInstanceID: "host-a"})
	req, err := http.NewRequestWithContext(short(t), http.MethodGet,
		p.NodeTerminalURL+path(wire.PathNodeTerminal, "", "{session_id}", "ts-none"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := p.NodeClient(c).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	codes["stream"] = envelope(t, resp).Code
	ask("heartbeat", http.MethodPost, wire.PathHeartbeat, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	codes["enroll"], _ = enrollAs(t, p, token, wire.EnrollRequest{NodeID: c.NodeID, NodeInstanceID: "host-a"})
	return codes
}

// TestDenialsEverywhere: a node that is locked out gets the same response on every route.
func TestDenialsEverywhere(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{Nodes: []platform.SeedNode{{ID: platformtest.NodeID}}})
	cred := p.Enroll(platformtest.NodeID)
	status, _, bundle := bundleOf(t, p, platformtest.NodeID, nil)
	if status != 200 {
		t.Fatalf("bundle: %d", status)
	}
	for _, code := range []string{wire.DenyRevoked, wire.DenyFenced, wire.DenyRetired, wire.DenyCloned} {
		p.SetIdentity(platformtest.NodeID, code)
		for where, got := range everywhere(t, p, cred, bundle.Token) {
			if got != code {
				t.Errorf("%s at %s: %q", code, where, got)
			}
		}
		if n := readNode(t, p); n.Recovery.Denial == nil || n.Recovery.Denial.Code != code || n.Recovery.Denial.At == "" {
			t.Errorf("%s: the node's last denial is %+v", code, n.Recovery.Denial)
		}
	}
}

// TestProfiles: a node or a token of another environment is rejected, until the node reports this one or is enrolled.
func TestProfiles(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{
		Nodes:  []platform.SeedNode{{ID: platformtest.NodeID}, {ID: otherNode, EnvironmentProfile: "airgapped"}},
		Config: func(c *platform.Config) { c.EnvironmentProfile = "prod" },
	})
	cred := p.Enroll(platformtest.NodeID)
	if n := readNode(t, p); n.Profile != "prod" {
		t.Errorf("active profile %q", n.Profile)
	}
	if code := beat(t, p, cred, wire.HeartbeatRequest{Profile: "prod"}); code != "" {
		t.Errorf("the active profile: %s", code)
	}
	if code := beat(t, p, cred, wire.HeartbeatRequest{Profile: "demo"}); code != wire.DenyProfileMismatch {
		t.Errorf("another profile: %q", code)
	}
	_, _, bundle := bundleOf(t, p, platformtest.NodeID, nil)
	for where, code := range everywhere(t, p, cred, "") {
		if want := wire.DenyProfileMismatch; where != "heartbeat" && where != "enroll" && code != want {
			t.Errorf("at %s after it: %q", where, code)
		}
	}
	// everywhere's own heartbeat names none, which ends it.
	if n := readNode(t, p); n.Agent.Profile != "" {
		t.Errorf("reported profile %q", n.Agent.Profile)
	}
	beat(t, p, cred, wire.HeartbeatRequest{Profile: "demo"})
	if n := readNode(t, p); n.Recovery.Reason != "endpoint_profile_drift" || n.Agent.Profile != "demo" {
		t.Errorf("read model %+v %+v", n.Recovery, n.Agent)
	}
	if code, _ := enrollAs(t, p, bundle.Token,
		wire.EnrollRequest{NodeID: platformtest.NodeID, Profile: "demo"}); code != wire.DenyProfileMismatch {
		t.Errorf("enrollment of another profile: %q", code)
	}
	if code, out := enrollAs(t, p, bundle.Token, wire.EnrollRequest{NodeID: platformtest.NodeID}); code != "" ||
		out.Profile != "prod" {
		t.Errorf("enrollment: %q, profile %q", code, out.Profile)
	}
	if code := beat(t, p, cred, wire.HeartbeatRequest{Profile: "prod"}); code != "" {
		t.Errorf("after it: %q", code)
	}
	if _, _, b := bundleOf(t, p, otherNode, nil); b.Profile != "airgapped" {
		t.Errorf("the node's own profile goes before: %q", b.Profile)
	}
}

// TestTokenOfAnotherProfile: the environment profile changed after the token was issued.
func TestTokenOfAnotherProfile(t *testing.T) {
	profile := "demo"
	db := t.TempDir() + "/platform.db"
	start := func() *platformtest.Platform {
		return platformtest.StartPlatform(t,
			platformtest.Options{Config: func(c *platform.Config) { c.Database, c.EnvironmentProfile = db, profile }})
	}
	p := start()
	_, _, bundle := bundleOf(t, p, platformtest.NodeID, nil)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	profile = "prod"
	p = start()
	if code, _ := enrollAs(t, p, bundle.Token,
		wire.EnrollRequest{NodeID: platformtest.NodeID}); code != wire.DenyProfileMismatch {
		t.Errorf("enrollment with a token of another profile: %q", code)
	}
}

// TestBundle: one document replaces endpoints, trust and token, and its token has a purpose.
func TestBundle(t *testing.T) {
	clk := &clock{}
	p := platformtest.StartPlatform(t, platformtest.Options{Now: clk.now, Config: func(c *platform.Config) {
		c.EnvironmentProfile, c.Endpoints.RecoveryAPIURL, c.PKI.RecoveryCABundle = "prod", "https://recovery.gpuaas.test",
			c.PKI.NodeCABundle
	}})
	status, _, b := bundleOf(t, p, platformtest.NodeID, map[string]any{"reason": "trust bundle is stale", "by": "ada"})
	if status != 200 || b.NodeID != platformtest.NodeID || b.APIURL != p.NodeAPIURL ||
		b.TerminalURL != p.NodeTerminalURL || b.CABundle != p.CAPEM ||
		b.RecoveryURL != "https://recovery.gpuaas.test" || b.RecoveryCA != p.CAPEM || b.TaskKeys != p.TaskPubkeys ||
		b.CorrelationID != "bundle-1" {
		t.Errorf("bundle %d %+v", status, b)
	}
	claims, ok := wire.ParseToken(b.Token)
	if !ok || claims.NodeID != platformtest.NodeID || claims.Profile != "prod" || !claims.ExpiresAt.Equal(b.ExpiresAt) ||
		claims.ExpiresAt.Sub(claims.IssuedAt) != time.Hour {
		t.Errorf("claims %+v", claims)
	}
	wantEvidence(t, p, "bundle-1", "node.reenroll_issued")
	rows := auditRows(t, p, "?node_id="+platformtest.NodeID)
	if len(rows) != 1 || rows[0].Action != "node.reenroll" || rows[0].ActorID != "ada" ||
		rows[0].Reason != "trust bundle is stale" || rows[0].CorrelationID != "bundle-1" || rows[0].Phase != "decision" {
		t.Errorf("audit %+v", rows)
	}
	clk.advance(2 * time.Hour)
	if code, _ := enrollAs(t, p, "made up", wire.EnrollRequest{NodeID: platformtest.NodeID}); code != "unauthorized" ||
		readNode(t, p).Recovery.Denial != nil {
		t.Errorf("a stranger's try: %q, %+v", code, readNode(t, p).Recovery.Denial)
	}
	if code, _ := enrollAs(t, p, b.Token, wire.EnrollRequest{NodeID: platformtest.NodeID}); code != wire.DenyTokenExpired {
		t.Errorf("an old bundle: %q", code)
	}
	if n := readNode(t, p); n.Recovery.Denial == nil || n.Recovery.Denial.Code != wire.DenyTokenExpired ||
		n.Recovery.Reason != "recovery_enrollment_blocked" {
		t.Errorf("read model after an old bundle: %+v", n.Recovery)
	}
	for _, code := range []string{wire.DenyCloned, wire.DenyRevoked} {
		p.SetIdentity(platformtest.NodeID, code)
		if status, got, _ := bundleOf(t, p, platformtest.NodeID, map[string]any{"reactivate": true}); status != 409 ||
			got != code {
			t.Errorf("a bundle for a node that is %s: %d %s", code, status, got)
		}
	}
}

// TestClonedIdentity: two hosts alternate with one identity. Both are denied until an operator has fenced one and
// accepted the other again; the fenced one stays denied and does not affect the node's state.
func TestClonedIdentity(t *testing.T) {
	// without sweeps, which would report the reason before the test does
	p := platformtest.StartPlatform(t, platformtest.Options{Config: slowSweeps})
	cred := p.Enroll(platformtest.NodeID)
	host := func(id string) string {
		return beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: id, BootID: "boot-" + id}, wire.HeaderCorrelationID,
			"clone-1", wire.HeaderNodeInstance, id)
	}
	for i, id := range []string{"host-a", "host-b", "host-b"} {
		if code := host(id); code != "" {
			t.Fatalf("heartbeat %d: %s", i, code)
		}
	}
	// A preflight's heartbeat does not count as a source.
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a", BootID: "boot-host-a"}, wire.HeaderProbe, "1")
	if code := host("host-a"); code != wire.DenyCloned {
		t.Fatalf("the host that came back: %q", code)
	}
	for _, id := range []string{"host-a", "host-b"} {
		if code := host(id); code != wire.DenyCloned {
			t.Errorf("%s after it: %q", id, code)
		}
	}
	n := readNode(t, p)
	// and the one of the enrollment
	if n.Identity != wire.DenyCloned || n.Recovery.State != "security_action_required" || len(n.Instances) != 2+1 {
		t.Errorf("read model %+v", n)
	}
	wantEvidence(t, p, "clone-1", "node.clone_detected", "node.denied", "node.recovery_changed")
	if a := allocation(t, p, platformtest.AllocationID); a.Recovery.Reason != "cloned_identity_detected" ||
		a.Recovery.State != "security_action_required" || a.Recovery.Since == "" {
		t.Errorf("its tenant reads it at once: %+v", a.Recovery)
	}
	if status, code := decide(t, p, platformtest.NodeID, "fence",
		map[string]any{"instance_id": "host-x"}); status != 404 || code != "instance_not_found" {
		t.Errorf("fence a stranger: %d %s", status, code)
	}
	if status, _ := decide(t, p, platformtest.NodeID, "fence",
		map[string]any{"instance_id": "host-b", "reason": "copied disk"}); status != 200 {
		t.Fatalf("fence: %d", status)
	}
	if code := host("host-a"); code != wire.DenyCloned {
		t.Errorf("not reactivated yet: %q", code)
	}
	if status, _ := decide(t, p, platformtest.NodeID, "reactivate",
		map[string]any{"reason": "host-a is the right one"}); status != 200 {
		t.Fatalf("reactivate: %d", status)
	}
	for range 3 {
		if code := host("host-a"); code != "" {
			t.Errorf("the right host: %q", code)
		}
		if code := host("host-b"); code != wire.DenyFenced {
			t.Errorf("the fenced host: %q", code)
		}
	}
	fencedRows := 0
	for _, r := range auditRows(t, p, "?action=node.authenticate") {
		if r.Reason == wire.DenyFenced {
			fencedRows++
		}
	}
	if fencedRows != 1 {
		t.Errorf("%d audit rows of a host that stays fenced", fencedRows)
	}
	for where, code := range everywhere(t, p, cred, "x", wire.HeaderNodeInstance, "host-b") {
		if code != wire.DenyFenced && where != "enroll" {
			t.Errorf("the fenced host at %s: %q", where, code)
		}
	}
	_, _, bundle := bundleOf(t, p, platformtest.NodeID, nil)
	if code, _ := enrollAs(t, p, bundle.Token,
		wire.EnrollRequest{NodeID: platformtest.NodeID, NodeInstanceID: "host-b"}); code != wire.DenyFenced {
		t.Errorf("the fenced host enrolls: %q", code)
	}
	if n := readNode(t, p); n.Identity != "accepted" || n.NodeInstanceID != "host-a" || n.Recovery.Denial != nil {
		t.Errorf("read model %+v", n)
	}
	if ops := operations(t, p); strings.Join(ops, ", ") != "reenroll issued, reactivate completed, fence completed" {
		t.Errorf("operations %q", ops)
	}
}

// TestUnfence: an operator who fenced the wrong host reverts that.
func TestUnfence(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	decide(t, p, platformtest.NodeID, "fence", map[string]any{"instance_id": "host-a"})
	if code := beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"}); code != wire.DenyFenced {
		t.Errorf("fenced: %q", code)
	}
	if status, _ := decide(t, p, platformtest.NodeID, "reactivate",
		map[string]any{"instance_id": "host-a", "reason": "mine"}); status != 200 {
		t.Errorf("reactivate the host: %d", status)
	}
	if code := beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"}); code != "" {
		t.Errorf("afterwards: %q", code)
	}
}

// TestFenceIsTheReasonAtOnce: after fencing the only host of a node, an operator immediately sees that as the
// reason, rather than first a healthy node, and then one that is silent without a cause. Another host ends it.
func TestFenceIsTheReasonAtOnce(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	wait.NextMillisecond()
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	decide(t, p, platformtest.NodeID, "fence", map[string]any{"instance_id": "host-a", "reason": "copied disk"})
	n := readNode(t, p)
	if n.Recovery.Reason != "identity_revoked_or_fenced" || n.Recovery.State != "operator_action_required" {
		t.Errorf("the reason at once: %+v", n.Recovery)
	}
	for _, c := range n.Recovery.Checklist {
		if c.ID == "task_wait_succeeds" && c.Status != "fail" {
			t.Errorf("a fenced host waits for no task: %+v", c)
		}
	}
	wait.NextMillisecond()
	beat(t, p, p.Issue(platformtest.NodeID, platformtest.IssueOptions{}), wire.HeartbeatRequest{NodeInstanceID: "host-b"},
		wire.HeaderNodeInstance, "host-b")
	if n := readNode(t, p); n.Recovery.Reason == "identity_revoked_or_fenced" {
		t.Errorf("another host speaks: %+v", n.Recovery)
	}
}

// operations lists "type status" of the node's operations, newest first.
func operations(t *testing.T, p *platformtest.Platform) []string {
	t.Helper()
	var out struct {
		Items []struct{ Type, Status string }
	}
	p.Do(http.MethodGet, "/v1/admin/nodes/"+platformtest.NodeID+"/operations", nil, &out)
	list := make([]string, len(out.Items))
	for i, o := range out.Items {
		list[i] = o.Type + " " + o.Status
	}
	return list
}

// TestFencedWithoutAName: a request that does not name its host is recognized by its address, unless a good host
// has the same address.
func TestFencedWithoutAName(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-b"})
	decide(t, p, platformtest.NodeID, "fence", map[string]any{"instance_id": "host-b"})
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil); status != 204 {
		t.Errorf("the host of the enrollment is at the same address: %d", status)
	}
	decide(t, p, platformtest.NodeID, "fence", map[string]any{"instance_id": "instance-of-" + platformtest.NodeID})
	var e wire.ErrorBody
	if status, _ := p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, &e); status != 403 ||
		e.Error.Code != wire.DenyFenced {
		t.Errorf("nobody else is at that address: %d %s", status, e.Error.Code)
	}
}

// TestFencedUnderAnotherName: a fenced host stays locked out whatever it calls itself, and does not lock out a
// good host.
func TestFencedUnderAnotherName(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	fence := func(id string) { decide(t, p, platformtest.NodeID, "fence", map[string]any{"instance_id": id}) }
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-b"}, wire.HeaderNodeInstance, "host-b")
	fence("host-b")
	if code := beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-c"}, wire.HeaderNodeInstance,
		"host-c"); code != "" {
		t.Errorf("a stranger with a certificate that a good host has as well: %q", code)
	}
	fence("instance-of-" + platformtest.NodeID)
	if code := beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-c"}, wire.HeaderNodeInstance,
		"host-c"); code != "" {
		t.Errorf("a good host: %q", code)
	}
	fence("host-c")
	for where, code := range everywhere(t, p, cred, "x", wire.HeaderNodeInstance, "host-d") {
		if code != wire.DenyFenced && where != "enroll" {
			t.Errorf("under another name at %s: %q", where, code)
		}
	}
	if code := beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-d"}, wire.HeaderNodeInstance,
		"host-d"); code != wire.DenyFenced {
		t.Errorf("its heartbeat: %q", code)
	}
}

// TestNewIdentity: reactivation may require a new enrollment, which makes the old certificates useless to a copy.
func TestNewIdentity(t *testing.T) {
	p := platformtest.StartPlatform(t, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	if status, code := decide(t, p, platformtest.NodeID, "reactivate", nil); status != 409 || code != "identity_accepted" {
		t.Errorf("nothing to reactivate: %d %s", status, code)
	}
	_, _, old := bundleOf(t, p, platformtest.NodeID, nil)
	decide(t, p, platformtest.NodeID, "revoke", map[string]any{"reason": "lost"})
	if code := beat(t, p, cred, wire.HeartbeatRequest{}); code != wire.DenyRevoked {
		t.Errorf("revoked: %q", code)
	}
	if status, _ := decide(t, p, platformtest.NodeID, "reactivate", map[string]any{"new_identity": true}); status != 200 {
		t.Fatalf("reactivate: %d", status)
	}
	if code := beat(t, p, cred, wire.HeartbeatRequest{}); code != wire.DenyNotNodeBound {
		t.Errorf("the old certificate: %q", code)
	}
	if code, _ := enrollAs(t, p, old.Token,
		wire.EnrollRequest{NodeID: platformtest.NodeID}); code != wire.DenyTokenExpired {
		t.Errorf("an earlier token: %q", code)
	}
	if n := readNode(t, p); n.Identity != "accepted" || n.Recovery.State == "normal" {
		t.Errorf("it has to come back first: %s, %+v", n.Identity, n.Recovery)
	}
	_, _, bundle := bundleOf(t, p, platformtest.NodeID, nil)
	if code, out := enrollAs(t, p, bundle.Token, wire.EnrollRequest{NodeID: platformtest.NodeID}); code != "" ||
		out.Generation != 2 {
		t.Errorf("new enrollment: %q, generation %d", code, out.Generation)
	}
	if code := beat(t, p, p.Issue(platformtest.NodeID, platformtest.IssueOptions{}), wire.HeartbeatRequest{}); code != "" {
		t.Errorf("with a new certificate: %q", code)
	}
	if code := beat(t, p, cred, wire.HeartbeatRequest{}); code != wire.DenyNotNodeBound {
		t.Errorf("a copy with the old one: %q", code)
	}
	if n := readNode(t, p); n.Recovery.Reason != "none" || n.Recovery.Denial.At > n.Agent.LastSeenAt {
		t.Errorf("the copy's denial is not the node's: %+v, seen %s", n.Recovery, n.Agent.LastSeenAt)
	}
}

// TestHostReuse: a host becomes another node when its former one is retired, and a retired node id returns by an
// audited bundle, with continued generations.
func TestHostReuse(t *testing.T) {
	p := platformtest.StartPlatform(t,
		platformtest.Options{Nodes: []platform.SeedNode{{ID: platformtest.NodeID}, {ID: otherNode}},
			Allocations: []platform.SeedAllocation{
				{ID: "alloc-01", NodeID: platformtest.NodeID, State: "active", OSUser: "tenant"},
			}})
	cred := p.Enroll(platformtest.NodeID)
	beat(t, p, cred, wire.HeartbeatRequest{NodeInstanceID: "host-a"})
	token := p.EnrollmentToken(otherNode).Reveal()
	if code, _ := enrollAs(t, p, token,
		wire.EnrollRequest{NodeID: otherNode, NodeInstanceID: "host-a"}); code != wire.DenyNotNodeBound {
		t.Errorf("a host that is another node: %q", code)
	}
	if status, code := decide(t, p, platformtest.NodeID, "retire", nil); status != 409 || code != "node_in_use" {
		t.Errorf("retire a node in use: %d %s", status, code)
	}
	if _, err := p.Store().Release(t.Context(), releaseTask(p), releaseDecision(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	p.DoNode(cred, http.MethodGet, waitPath+"?timeout=0", nil, nil)
	p.DoNode(cred, http.MethodPost, path(wire.PathTaskResult, platformtest.NodeID, "{task_id}", "task-cleanup"),
		completed(), nil)
	if status, code := decide(t, p, platformtest.NodeID, "retire",
		map[string]any{"reason": "uninstalled"}); status != 200 {
		t.Fatalf("retire: %d %s", status, code)
	}
	if code := beat(t, p, cred, wire.HeartbeatRequest{}); code != wire.DenyRetired {
		t.Errorf("a retired node: %q", code)
	}
	if code, _ := enrollAs(t, p, token, wire.EnrollRequest{NodeID: otherNode, NodeInstanceID: "host-a"}); code != "" {
		t.Errorf("its host as another node: %q", code)
	}
	if !strings.Contains(evidenceOf(t, p, otherNode), "node.host_reused") {
		t.Error("the reuse is not recorded")
	}
	if status, code, _ := bundleOf(t, p, platformtest.NodeID, nil); status != 409 || code != wire.DenyRetired {
		t.Errorf("a bundle of a retired node: %d %s", status, code)
	}
	status, _, bundle := bundleOf(t, p, platformtest.NodeID,
		map[string]any{"reactivate": true, "reason": "back from repair"})
	if status != 200 {
		t.Fatalf("an audited bundle brings it back: %d", status)
	}
	if code, out := enrollAs(t, p, bundle.Token,
		wire.EnrollRequest{NodeID: platformtest.NodeID, NodeInstanceID: "host-c"}); code != "" || out.Generation != 2 {
		t.Errorf("enrollment: %q, generation %d", code, out.Generation)
	}
	actions := ""
	for _, a := range auditRows(t, p, "?correlation_id=bundle-1") {
		actions += a.Action + " "
	}
	if actions != "node.reactivate node.reenroll " {
		t.Errorf("audit under the bundle's correlation id: %q", actions)
	}
}

// evidenceOf returns the evidence of a node, as text.
func evidenceOf(t *testing.T, p *platformtest.Platform, nodeID string) string {
	t.Helper()
	return evidenceQuery(t, p, "node_id="+nodeID)
}

func evidenceQuery(t *testing.T, p *platformtest.Platform, query string) string {
	t.Helper()
	var out json.RawMessage
	if status, _ := p.Do(http.MethodGet, "/v1/admin/evidence?"+query, nil, &out); status != 200 {
		t.Fatalf("evidence: %d", status)
	}
	return string(out)
}
