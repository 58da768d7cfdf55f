package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestRefusedHeartbeatsAreThePlatforms: if the node's record has the HTTP error that answers its heartbeats, and its
// other requests work, the control plane is reachable and the agent is not at fault.
func TestRefusedHeartbeatsAreThePlatforms(t *testing.T) {
	restart := func(s string) bool { return strings.Contains(s, "systemctl restart") }
	for name, c := range map[string]struct {
		entry   diag.RecordEntry
		contact time.Duration // how long ago
		waits   bool          // the walk's own task wait is answered
		reason  diag.ReasonCode
		ours    bool // of the platform's side
	}{
		"HTTP 429 for heartbeats alone": {diag.RecordEntry{Failure: diag.HTTPRateLimited, Status: 429,
			Reason: diag.RecEdgeRateLimited}, time.Second, true, diag.ReasonEdgeRateLimited, true},
		"403 revoked": {diag.RecordEntry{Failure: diag.HTTPStatus, Status: 403, Code: "revoked",
			Reason: diag.RecIdentityRevoked}, time.Second, true, diag.ReasonNodeAgentUnreachable, true},
		"403 of a filter in JSON": {diag.RecordEntry{Failure: diag.HTTPStatus, Status: 403, Code: "forbidden",
			Reason: diag.RecIdentityRejected}, time.Second, true, diag.ReasonNodeAgentUnreachable, true},
		"403 expired": {diag.RecordEntry{Failure: diag.HTTPStatus, Status: 403, Code: "expired",
			Reason: diag.RecCertExpired}, time.Second, true, diag.ReasonNodeAgentUnreachable, true},
		"401 without a code": {diag.RecordEntry{Failure: diag.HTTPStatus, Status: 401},
			time.Second, true, diag.ReasonNodeAgentUnreachable, true},
		"403 revoked, and the task wait fails as well": {diag.RecordEntry{Failure: diag.HTTPStatus, Status: 403,
			Code: "revoked", Reason: diag.RecIdentityRevoked}, time.Second, false, diag.ReasonIdentityRevokedOrFenced, false},
		"HTTP 500, and other requests work": {
			diag.RecordEntry{Failure: diag.HTTPStatus, Status: 500}, time.Second, true, diag.ReasonNodeAgentUnreachable, true},
		"a connection refused, and other requests work": {
			diag.RecordEntry{Failure: diag.TCPRefused}, time.Second, true, diag.ReasonNodeAgentUnreachable, false},
		"HTTP 500, and no contact": {
			diag.RecordEntry{Failure: diag.HTTPStatus, Status: 500}, time.Hour, true, diag.ReasonControlPlaneUnreachable, false},
		"HTTP 500, and the task wait fails as well": {
			diag.RecordEntry{Failure: diag.HTTPStatus, Status: 500}, time.Second, false, diag.ReasonControlPlaneUnreachable,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			edits := map[string]func(*diag.Fact){
				"node_heartbeat/read_model": func(f *diag.Fact) {
					f.HTTP.Fields["node.last_seen_at"] = noon.Add(-c.contact).Format(time.RFC3339Nano)
					f.HTTP.Fields["node.last_heartbeat_at"] = noon.Add(-2 * time.Hour).Format(time.RFC3339Nano)
				},
				"node_recovery_status/host_record": func(f *diag.Fact) {
					e := c.entry
					e.Seq, e.At, e.About, e.Decision = 1, diag.Time{Time: noon.Add(-time.Second)}, "heartbeat", "retry"
					e.Reason = cmp.Or(e.Reason, diag.RecAPIUnreachable)
					f.Record = &diag.RecordFacts{Entries: []diag.RecordEntry{e}}
				},
			}
			if !c.waits {
				edits["node_recovery_status/task_wait"] = func(f *diag.Fact) {
					f.Failure, f.Phase = diag.HTTPStatus, "http"
					f.HTTP = &diag.HTTPFacts{Status: 502}
				}
			}
			r := walkWith(t, edits)
			if got := r.Classification.Reason; got != c.reason {
				t.Errorf("reason %s (%s), want %s", got, r.Classification.Title, c.reason)
			}
			if b := r.Verdict.Blame; c.waits && (b == nil || b.Signal != diag.SigHeartbeatStale) {
				t.Fatalf("blame %+v", b)
			}
			answer := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", c.entry.Status, c.entry.Code))
			words := c.entry.Status != 0 && strings.Contains(hopOf(r, diag.HopNodeHeartbeat).Text, answer)
			want := "control plane API"
			if e := c.entry; e.Status == 429 || e.Status == 401 || e.Code == "forbidden" { // not signed by the platform
				want = "edge and route profile, control plane API"
			}
			owners := r.Verdict.Owner == want && r.Classification.Owner == want
			if words != c.ours || owners != c.ours || (c.ours && slices.ContainsFunc(r.Verdict.Recovery, restart)) {
				t.Errorf("owner %q and %q, steps %q: %s", r.Verdict.Owner, r.Classification.Owner, r.Verdict.Recovery,
					hopOf(r, diag.HopNodeHeartbeat).Text)
			}
			if c.ours && (strings.Contains(r.Classification.Title, "control plane fail") ||
				!strings.Contains(strings.Join(r.Classification.Because, " "), answer)) {
				t.Errorf("%s: %q", r.Classification.Title, r.Classification.Because)
			}
		})
	}
}
