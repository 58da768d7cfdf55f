package preflight

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestWarningTakesTheBlame: a warning of something on which a later failure rests is the fault, and the failure its
// symptom; its verification walks both. A failure of another kind keeps its own blame, and without a failure the
// warning stays one.
func TestWarningTakesTheBlame(t *testing.T) {
	noExec := func(f *diag.Fact) { f.Failure, f.Phase, f.Errno = diag.BinaryExecFormat, "stat", "EACCES" }
	shell := func(code, message string) func(*diag.Fact) {
		return func(f *diag.Fact) {
			f.Failure, f.Phase, f.PTY = diag.PTYFailed, "session", nil
			f.WS = &diag.WSFacts{Upgraded: true, Status: 101, FirstFrame: "error", FrameCode: code, FrameMessage: message}
		}
	}
	out := func(f *diag.Fact) { f.Unit.Short = &diag.ShortageFacts{Resource: "processes", Scope: "group"} }
	refused := func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP = diag.MTLSCertExpired, "mtls", nil
		yes := true
		f.TLS = &diag.TLSFacts{Verified: true, CertRequested: &yes, CertSent: "77"}
	}
	elsewhere := func(f *diag.Fact) { ahead(time.Hour)(f) }
	for name, tc := range map[string]struct {
		answers answers
		hop     diag.HopID // of the blame
		signal  diag.Signal
		symptom diag.HopID
	}{
		"a program without its execute bit": {answers{binaryFact: noExec,
			sessionFact: shell("pty_failed", "start a unit for the session: Permission denied")},
			diag.HopNodeReadiness, diag.SigBinaryInvalid, diag.HopTerminalStartup},
		"that, and a user that is not there": {answers{binaryFact: noExec, sessionFact: shell("user_missing", "no user")},
			diag.HopTerminalStartup, diag.SigPTYFailed, ""},
		"an agent out of processes": {answers{"node_readiness/process": out,
			sessionFact: shell("pty_failed", "fork: Resource temporarily unavailable")},
			diag.HopNodeReadiness, diag.SigNodeExhausted, diag.HopTerminalStartup},
		"a certificate that only the gateway calls expired": {answers{identityFact: dated(noon.Add(-time.Hour)),
			streamFact: refused}, diag.HopNodeRecoveryStatus, diag.SigAuthFailed, diag.HopNodeTerminalReachability},
		"an operator's clock, and a certificate by it": {answers{"node_readiness/clock": elsewhere,
			healthFact: dateOf(noon.Add(time.Hour)), routeFact: presents(diag.TLSNotYetValid, nil, leafCert)},
			diag.HopNodeReadiness, diag.SigOperatorClockSkew, diag.HopAppUserRoute},
		"an operator's clock, and a route that is down": {answers{"node_readiness/clock": elsewhere,
			healthFact: dateOf(noon.Add(time.Hour)), routeFact: failWith(diag.TCPRefused, "tcp")},
			diag.HopAppUserRoute, diag.SigAppRouteFailed, ""},
	} {
		r := walkWith(t, tc.answers)
		v := r.Verdict
		if v.Blame == nil || v.Blame.Hop != tc.hop || v.Blame.Signal != tc.signal ||
			(tc.symptom != "" && !slices.Contains(v.Symptoms, tc.symptom)) {
			t.Errorf("%s: %+v, symptoms %v\n%s", name, v.Blame, v.Symptoms, describe(r))
			continue
		}
		if h := hopOf(r, tc.hop); h.Status != diag.StatusFail {
			t.Errorf("%s: %s is %s", name, tc.hop, h.Status)
		}
		// the shell is judged by the session, whose hop brings it
		if tc.symptom != "" && !strings.Contains(v.RepairProof, string(tc.symptom)) &&
			!strings.Contains(v.RepairProof, string(diag.HopBrowserTerminalWS)) {
			t.Errorf("%s: %q", name, v.RepairProof)
		}
	}
	if v := walkWith(t, answers{binaryFact: noExec}).Verdict; v.Outcome != diag.OutcomeWarn {
		t.Errorf("without a failure: %s, %+v", v.Outcome, v.Blame)
	}
}
