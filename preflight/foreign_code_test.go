package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
)

// refusedShown is an ingress's refusal of a request with the node's certificate.
func refusedShown(status int, code string) func(*diag.Fact) {
	return func(f *diag.Fact) {
		if f.TLS == nil {
			yes := true
			f.TLS = &diag.TLSFacts{Verified: true, CertRequested: &yes}
		}
		sent(diag.HTTPStatus, "http")(f)
		f.HTTP = &diag.HTTPFacts{Status: status, ContentType: "application/json", ErrorCode: code,
			Fields: map[string]string{"error.code": code}}
	}
}

// TestAForeignCodeIsNoDenialByThePlatform: a server on the path has error codes of its own.
func TestAForeignCodeIsNoDenialByThePlatform(t *testing.T) {
	for code, denies := range map[string]bool{
		"forbidden": false, "access_denied": false, "blocked_by_waf": false, "not_node_bound": true, "expired": true,
		"revoked": true, "node_fenced": true, "source_unproven": true,
	} {
		const streamFact = "node_terminal_reachability/stream"
		r := walkWith(t, answers{waitFact: refusedShown(403, code), streamFact: refusedShown(403, code)})
		text := hopOf(r, diag.HopNodeRecoveryStatus).Text
		if v := r.Verdict; v.Blame == nil || strings.Contains(text, "the platform denies this node:") != denies ||
			(v.Owners[0] == "edge and route profile") == denies {
			t.Errorf("%s: %v: %s", code, v.Owners, text)
		}
		if stream := hopOf(walkWith(t, answers{streamFact: refusedShown(403, code)}),
			diag.HopNodeTerminalReachability); strings.Contains(stream.Text, "not known to be the platform's") == denies {
			t.Errorf("%s: %s", code, stream.Text)
		}
	}
	for _, code := range []string{"cloned", "revoked", "node_fenced", "retired", "expired"} {
		v := walkWith(t, answers{waitFact: refusedShown(403, code)}).Verdict
		if v.Blame == nil || v.Blame.Signal != diag.SigAPIUnreachable || v.Reason != diag.ReasonControlPlaneUnreachable ||
			!strings.Contains(v.Blame.Text, "whether the platform denies this node is not known") || v.Observation != nil {
			t.Errorf("%s at one of two listeners: %s %+v", code, v.Reason, v.Blame)
		}
	}
	// A gateway that looks for the session first lets every certificate in: the platform's word about the same walk's
	// terminal counts for more.
	confirmed := walkWith(t, answers{waitFact: refusedShown(403, "revoked"), sessionFact: func(f *diag.Fact) {
		refusedUpgrade(403)(f)
		f.HTTP.ErrorCode = "node_revoked"
	}})
	if b := confirmed.Verdict.Blame; b == nil || !strings.Contains(b.Text, "the platform denies this node:") {
		t.Errorf("revoked, and confirmed: %+v", b)
	}
	r := walkWith(t, answers{sessionFact: func(f *diag.Fact) {
		refusedUpgrade(403)(f)
		f.HTTP.ErrorCode = "node_busy"
	}})
	if text := hopOf(r, diag.HopBrowserTerminalWS).Text; strings.Contains(text, "identity") {
		t.Errorf("node_busy: %s", text)
	}
}

// TestACodeOfThisPlatformsOwnPlaceIsIts: a profile that names another place for error codes describes its platform.
func TestACodeOfThisPlatformsOwnPlaceIsIts(t *testing.T) {
	f := &diag.Fact{Request: diag.Request{Extract: map[string]string{"error.code": "fault.kind"}},
		HTTP: &diag.HTTPFacts{Status: 403, ErrorCode: "forbidden", Fields: map[string]string{}}}
	if reading.PlatformCode(f) {
		t.Error("a code of the standard envelope")
	}
	if f.HTTP.Fields["error.code"] = "NODE_BLOCKED"; !reading.PlatformCode(f) {
		t.Error("a code at the profile's place")
	}
}

// TestATokenIsRefusedOnlyIfItWasRead: an edge that removes the token gets the API's refusal of a request without one.
func TestATokenIsRefusedOnlyIfItWasRead(t *testing.T) {
	for code, read := range map[string]bool{
		"unauthorized": false, "missing_token": false, "forbidden": false, "invalid_token": true, "insufficient_scope": true,
		"token_expired": true,
	} {
		v := walkWith(t, answers{authFact: refusal(401, code)}).Verdict
		if v.Blame == nil || v.Blame.Signal != diag.SigOperatorAuthFailed || (v.Confidence == diag.Observed) != read ||
			strings.Contains(v.Blame.Text, "whether the token reached it is not known") == read {
			t.Errorf("%s: %s %+v", code, v.Confidence, v.Blame)
		}
	}
}

// TestNothingIsObservedThatPassedOnce: one of several servers is no cause that was measured.
func TestNothingIsObservedThatPassedOnce(t *testing.T) {
	drifted := func(f *diag.Fact) {
		sent(diag.MTLSIngress400, "http")(f)
		f.HTTP, f.TLS.AcceptableCAs, f.TLS.CertSent = &diag.HTTPFacts{Status: 400, Page: "ssl_certificate_error"},
			[]string{"CN=another"}, "77"
	}
	serial := func(f *diag.Fact) { f.Cert.Leaf.Serial = "77" }
	taken := func(f *diag.Fact) { f.TLS.CertSent = "77" }
	for _, passesOnce := range []bool{false, true} {
		world := answers{waitFact: drifted, "node_recovery_status/identity": serial}
		if passesOnce {
			world[waitFact+"~2"] = taken
		}
		v := walkWith(t, world).Verdict
		if v.Blame == nil || v.Blame.Signal != diag.SigIngressCADrift || (v.Observation != nil) == passesOnce ||
			strings.Contains(v.Blame.Text, "one of several servers") != passesOnce {
			t.Errorf("%t: %s %+v %+v", passesOnce, v.Confidence, v.Observation, v.Blame)
		}
	}
}

// TestARefusalThatTheOperatorGetsIsThePlatforms: a refused connection shows that the way to the address works.
func TestARefusalThatTheOperatorGetsIsThePlatforms(t *testing.T) {
	for _, alike := range []bool{true, false} {
		operators := failWith(diag.TCPTimeout, "tcp")
		if alike {
			operators = failWith(diag.TCPRefused, "tcp")
		}
		r := walkWith(t, answers{reachFact: failWith(diag.TCPRefused, "tcp"), reachFact + "~from-operator": operators})
		if v := r.Verdict; v.Blame == nil || v.Blame.Hop != diag.HopNodeRuntimeAPI ||
			(v.Owner == "environment networking") == alike {
			t.Errorf("%t: %s\n%s", alike, v.Owner, describe(r))
		}
	}
}

// TestALimitThatTheOperatorMeetsIsNotAboutTheCertificate: the reason follows the blame.
func TestALimitThatTheOperatorMeetsIsNotAboutTheCertificate(t *testing.T) {
	limit := answerWith(diag.HTTPStatus, "http", 400, nil)
	wait := func(f *diag.Fact) { sent(diag.HTTPStatus, "http")(f); f.HTTP = &diag.HTTPFacts{Status: 400} }
	r := walkWith(t, answers{healthFact: limit, authFact: limit, waitFact: wait})
	v := r.Verdict
	if v.Blame == nil || v.Blame.Hop != diag.HopControlPlaneAccess || len(v.OtherFindings) > 0 ||
		v.Reason == diag.ReasonIdentityRejectedRecoverable || v.UserState == diag.UserRecovery {
		t.Errorf("%s %s\n%s", v.Reason, v.UserState, describe(r))
	}
	refused := answers{waitFact: wait, "node_terminal_reachability/stream": refusedShown(400, "")}
	if v := walkWith(t, refused).Verdict; v.Reason != diag.ReasonIdentityRejectedRecoverable {
		t.Errorf("at both of the node's listeners: %s", v.Reason)
	}
}

// TestACertificateIsAnAnswer: a server that presents a certificate is not silent.
func TestACertificateIsAnAnswer(t *testing.T) {
	for _, word := range []diag.Failure{diag.TLSNameMismatch, diag.TLSExpired, diag.TLSNotYetValid, diag.TLSUnknownCA} {
		r := walkWith(t, answers{publicFact: failWith(word, "tls")})
		if text := hopOf(r, diag.HopTerminalPublicRoute).Text; !strings.Contains(text, "gives a certificate") {
			t.Errorf("%s: %s", word, text)
		}
	}
}

// TestJSONOfAnEdgeNamesTheEdge: JSON without a code of the platform may come from any server on the path.
func TestJSONOfAnEdgeNamesTheEdge(t *testing.T) {
	foreign := func(status int, code string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase = diag.HTTPStatus, "http"
			f.HTTP = &diag.HTTPFacts{Status: status, ContentType: "application/json", ErrorCode: code}
		}
	}
	for _, code := range []string{"", "not_found", "no_route_matched", "InvalidRequest", "BLOCKED"} {
		for name, world := range map[string]answers{
			"ingress, 400": {waitFact: foreign(400, code)}, "ingress, 404": {waitFact: foreign(404, code)},
			"API, 404": {readModelFact: foreign(404, code)}, "API, 400": {readModelFact: foreign(400, code)},
			"allocation, 404": {"allocation_binding/allocation": foreign(404, code)},
			"allocation, 400": {"allocation_binding/allocation": foreign(400, code)},
			"task, 404":       {"node_task_roundtrip/enqueue": foreign(404, code)},
			"task, 400":       {"node_task_roundtrip/enqueue": foreign(400, code)},
		} {
			v := walkWith(t, world).Verdict
			if v.Outcome != diag.OutcomeInconclusive || v.Owner != "edge and route profile, operator access" {
				t.Errorf("%s %q: %s, %s: %s", name, code, v.Outcome, v.Owner, v.Because)
			}
		}
	}
	for code, edge := range map[string]bool{"": true, "not_found": true, "session_limit_reached": false} {
		v := walkWith(t, answers{"terminal_token_mint/mint": foreign(404, code)}).Verdict
		if v.Blame == nil || v.Blame.Signal != diag.SigTokenMintFailed || (v.Owners[0] == "edge and route profile") != edge {
			t.Errorf("mint %q: %s, %v", code, v.Outcome, v.Owners)
		}
	}
	for _, code := range []string{"node_not_found", "NODE_UNKNOWN"} {
		v := walkWith(t, answers{readModelFact: foreign(404, code)}).Verdict
		if v.Outcome != diag.OutcomeInconclusive || v.Owner == "edge and route profile, operator access" {
			t.Errorf("%s: %s, %s: %s", code, v.Outcome, v.Owner, v.Because)
		}
	}
}

// TestDenialsOfTheContract: each code with which the platform denies a node is known here.
func TestDenialsOfTheContract(t *testing.T) {
	for _, code := range []string{wire.DenyExpired, wire.DenyNotNodeBound, wire.DenyRevoked, wire.DenyFenced,
		wire.DenyRetired, wire.DenyCloned, wire.DenyProfileMismatch, wire.DenyUnproven} {
		if _, known := diag.DenialReason(code); !known {
			t.Errorf("%s is not known as a denial", code)
		}
	}
}

// TestShellCodesOfTheContract: the agent's codes about user, shell and PTY are those that the judges know.
func TestShellCodesOfTheContract(t *testing.T) {
	for here, there := range map[string]string{diag.CodeUserMissing: wire.CodeUserMissing,
		diag.CodeShellMissing: wire.CodeShellMissing, diag.CodeUserRefused: wire.CodeUserRefused,
		diag.CodePTYFailed: wire.CodePTYFailed, diag.CodePTYExited: wire.CodePTYExited} {
		if here != there || !diag.ShellCode(there) {
			t.Errorf("%s here, %s in package wire", here, there)
		}
	}
}
