package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// unseenCert is the answer of a platform whose edge got the node's certificate in TLS and did not pass it on.
func unseenCert(failure diag.Failure, phase string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		asked := true
		f.Failure, f.Phase = failure, phase
		f.TLS = &diag.TLSFacts{Verified: true, CertRequested: &asked, CertSent: "ab", AcceptableCAs: []string{"CN=signing"}}
		f.HTTP = &diag.HTTPFacts{Status: 401, ContentType: "application/json", ErrorCode: "client_certificate_required"}
		f.WS = nil
	}
}

// edgeIsCalled fails the test unless the edge's owner comes first and no step touches the node's certificate.
func edgeIsCalled(t *testing.T, r *diag.Report) {
	t.Helper()
	if len(r.Verdict.Owners) == 0 || r.Verdict.Owners[0] != "edge and route profile" {
		t.Errorf("owners %q", r.Verdict.Owners)
	}
	for _, s := range r.Verdict.Recovery {
		if strings.Contains(s, "reenroll") || strings.Contains(s, "re-enroll the node") || strings.Contains(s, "diag trust") {
			t.Errorf("step %q", s)
		}
	}
	if !strings.Contains(strings.Join(r.Verdict.Recovery, "\n"), "pass the client certificate on") {
		t.Errorf("steps %q", r.Verdict.Recovery)
	}
}

// TestUnseenCertificateIsTheEdges: if a listener requested and got the node's certificate, but the platform reports
// that it saw none, no certificate was judged: the server that ends TLS is at fault, not the node's enrollment.
func TestUnseenCertificateIsTheEdges(t *testing.T) {
	letsIn := func(f *diag.Fact) {
		unseenCert(diag.WSUpgradeRejected, "ws")(f)
		f.HTTP.Status, f.HTTP.ErrorCode = 404, "session_not_found"
	}
	wait := answers{"node_recovery_status/task_wait": unseenCert(diag.HTTPStatus, "http"),
		"node_terminal_reachability/stream":                letsIn,
		"node_recovery_status/task_wait~other-listener":    letsIn,
		"node_recovery_status/task_wait~profile-url":       unseenCert(diag.HTTPStatus, "http"),
		"node_terminal_reachability/stream~other-listener": unseenCert(diag.HTTPStatus, "http"),
		"node_terminal_reachability/stream~profile-url":    unseenCert(diag.WSUpgradeRejected, "ws"),
		"node_terminal_reachability/stream~from-operator":  failWith(diag.TLSProtocol, "tls"),
		"node_recovery_status/host_record":                 rejectedRecord,
	}
	r := walkWith(t, wait)
	b := r.Verdict.Blame
	if b == nil || b.Hop != diag.HopNodeRecoveryStatus || b.Signal != diag.SigAuthFailed ||
		r.Verdict.Confidence != diag.Proven ||
		!strings.Contains(b.Text, "does not pass it on: the platform behind it saw no certificate") {
		t.Fatalf("blame %+v", b)
	}
	edgeIsCalled(t, r)
	if got := r.Classification.Reason; got != diag.ReasonControlPlaneUnreachable {
		t.Errorf("reason %s: %q", got, r.Classification.Because)
	}

	both := with(wait, answers{"node_terminal_reachability/stream": unseenCert(diag.WSUpgradeRejected, "ws"),
		"node_recovery_status/task_wait~other-listener": unseenCert(diag.WSUpgradeRejected, "ws")})
	r = walkWith(t, both)
	if b := r.Verdict.Blame; b == nil || r.Verdict.Confidence == diag.Proven || len(r.Verdict.OtherFindings) > 0 {
		t.Errorf("one edge in front of both listeners: blame %+v, others %+v", b, r.Verdict.OtherFindings)
	}
	edgeIsCalled(t, r)

	r = walkWith(t, answers{"node_terminal_reachability/stream": unseenCert(diag.WSUpgradeRejected, "ws"),
		"browser_terminal_ws/session": streamTimeout, "terminal_open_task/session": noStream})
	if b := r.Verdict.Blame; b == nil || b.Signal != diag.SigNodeStreamMTLS ||
		!strings.Contains(b.Text, "does not pass it on") {
		t.Fatalf("the terminal listener's: blame %+v", b)
	}
	edgeIsCalled(t, r)
}

// rejectedRecord is what the agent records about such answers.
func rejectedRecord(f *diag.Fact) {
	at := func(seq uint64, reason diag.RecordReason, about, code string) diag.RecordEntry {
		e := diag.RecordEntry{Seq: seq, At: diag.At(noon.Add(time.Duration(seq-9) * time.Second)), BootID: "boot-1",
			Reason: reason, About: about, Decision: "retry", Code: code}
		if code != "" {
			e.Status, e.Failure = 401, diag.HTTPStatus
		}
		return e
	}
	f.Record = &diag.RecordFacts{Entries: []diag.RecordEntry{
		at(1, diag.RecIdentityRejected, "task_wait", "client_certificate_required"),
		at(2, diag.RecRecoveryEnrolled, "identity", ""),
		at(3, diag.RecIdentityRejected, "task_wait", "client_certificate_required"),
	}}
}

// TestUntrustedAndUnseen: an edge that lists its CAs without the node's issuer may hold the certificate back because it
// does not trust it. A fault of the node's own files comes first as well.
func TestUntrustedAndUnseen(t *testing.T) {
	others := func(f *diag.Fact) {
		unseenCert(diag.HTTPStatus, "http")(f)
		f.TLS.AcceptableCAs = []string{"CN=other"}
	}
	for name, c := range map[string]struct {
		answers answers
		want    diag.Signal
	}{
		"drift": {answers{"node_recovery_status/task_wait": others}, diag.SigIngressCADrift},
		"expired": {answers{"node_recovery_status/task_wait": unseenCert(diag.HTTPStatus, "http"),
			"node_recovery_status/identity": func(f *diag.Fact) {
				healthyIdentity(f, hop.StepIdentity)
				f.Failure, f.Phase = diag.MTLSCertExpired, "cert"
				f.Cert.Leaf.NotAfter = diag.At(noon.Add(-time.Minute))
			}}, diag.SigAuthFailed},
		"not asked for": {answers{"node_recovery_status/task_wait": func(f *diag.Fact) {
			unseenCert(diag.HTTPStatus, "http")(f)
			no := false
			f.TLS.CertRequested, f.TLS.CertSent = &no, ""
		}}, diag.SigEndpointProfileDrift},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, c.answers)
			b := r.Verdict.Blame
			if b == nil || b.Signal != c.want || strings.Contains(b.Text, "does not pass it on") {
				t.Errorf("blame %+v, want %s", b, c.want)
			}
		})
	}
}

// TestUnseenHeartbeats: only heartbeats are answered by a platform that saw no certificate.
func TestUnseenHeartbeats(t *testing.T) {
	r := walkWith(t, answers{
		"node_heartbeat/read_model": func(f *diag.Fact) {
			f.HTTP.Fields["node.last_heartbeat_at"] = noon.Add(-2 * time.Hour).Format(time.RFC3339Nano)
		},
		"node_recovery_status/host_record": func(f *diag.Fact) {
			f.Record = &diag.RecordFacts{Entries: []diag.RecordEntry{{Seq: 1, At: diag.At(noon.Add(-time.Second)),
				Reason: diag.RecIdentityRejected, About: "heartbeat", Decision: "retry", Failure: diag.HTTPStatus, Status: 401,
				Code: "client_certificate_required"}}}
		},
	})
	if b := r.Verdict.Blame; b == nil || b.Signal != diag.SigHeartbeatStale ||
		!strings.Contains(b.Text, "the platform behind it saw no certificate (client_certificate_required)") {
		t.Fatalf("blame %+v", b)
	}
	edgeIsCalled(t, r)
	if got := r.Classification.Owner; !strings.HasPrefix(got, "edge and route profile") {
		t.Errorf("classification's owner %q", got)
	}
}

// TestStreamRefusedByAPage: a refusal of the terminal listener that does not come from the gateway may come from any
// server on the path, and shows nothing about the node's certificate.
func TestStreamRefusedByAPage(t *testing.T) {
	r := walkWith(t, answers{"node_terminal_reachability/stream": func(f *diag.Fact) {
		unseenCert(diag.WSUpgradeRejected, "ws")(f)
		f.HTTP = &diag.HTTPFacts{Status: 403, ContentType: "text/html"}
	}, "browser_terminal_ws/session": streamTimeout, "terminal_open_task/session": noStream})
	b := r.Verdict.Blame
	if b == nil || b.Hop != diag.HopNodeTerminalReachability ||
		strings.Contains(b.Text, "refuses this node's certificate") || r.Verdict.Owners[0] != "edge and route profile" {
		t.Errorf("blame %+v, owners %q", b, r.Verdict.Owners)
	}
}
