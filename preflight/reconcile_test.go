package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
)

// TestReasonsThatContradictedTheBlame has four walks whose reason was about another fault than their blame without
// saying so.
func TestReasonsThatContradictedTheBlame(t *testing.T) {
	notPosted := diag.RecordEntry{Reason: diag.RecTaskResultPostFailed, About: "task_result", Decision: "retry",
		Failure: diag.HTTPStatus, Status: 502}
	contact := diag.RecordEntry{Reason: diag.RecProcessAlive, About: "heartbeat", Decision: classify.DecisionContact}
	old := func(f *diag.Fact) {
		f.HTTP.Fields["node.agent_version"], f.HTTP.Fields["node.agent_desired_version"] = "v1", "v2"
	}
	unclaimed := func(f *diag.Fact) {
		f.HTTP.Fields["task.status"], f.Failure, f.Phase = "queued", diag.Timeout, "poll"
		delete(f.HTTP.Fields, "task.claimed_at")
	}
	noSSH := func(f *diag.Fact) { f.Failure, f.Phase, f.SSH = diag.TCPTimeout, "tcp", nil }
	refused := func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP = diag.MTLSIngress400, "http", &diag.HTTPFacts{Status: 400}
	}
	noToken := func(f *diag.Fact) { f.HTTP.Fields["node.recovery_current_token"] = "false" }
	login := func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP = diag.HTTPEdgeAuth, "http", &diag.HTTPFacts{Status: 302}
	}
	for name, c := range map[string]struct {
		answers map[string]func(*diag.Fact)
		never   []diag.ReasonCode
		want    diag.ReasonCode // "": any other
	}{
		"the machine is cut off, and its agent was old": {map[string]func(*diag.Fact){
			"node_heartbeat/read_model": func(f *diag.Fact) { silent(f); old(f) }, "node_ops_access/ssh": noSSH,
			"node_task_roundtrip/task": unclaimed,
		}, []diag.ReasonCode{diag.ReasonAgentVersionDrift}, diag.ReasonNodeAgentUnreachable},
		"the machine is cut off since a moment": {map[string]func(*diag.Fact){
			"node_ops_access/ssh": noSSH, "node_task_roundtrip/task": unclaimed,
		}, []diag.ReasonCode{diag.ReasonAgentVersionDrift}, diag.ReasonNodeAgentUnreachable},
		"the API asks for a login": {map[string]func(*diag.Fact){
			"control_plane_access/healthz": login, "control_plane_access/auth": login, recordFact: wrote(notPosted, contact),
		}, []diag.ReasonCode{diag.ReasonTaskResultPostFailed}, ""},
		"a good certificate is refused": {map[string]func(*diag.Fact){
			"node_heartbeat/read_model": noToken, "node_recovery_status/task_wait": refused,
		}, []diag.ReasonCode{diag.ReasonRecoveryTokenMissing, diag.ReasonCertExpired},
			diag.ReasonIdentityRejectedRecoverable},
	} {
		r := walkWith(t, c.answers)
		k := r.Classification
		for _, code := range c.never {
			if k.Reason == code {
				t.Errorf("%s: %s because %q, blame %+v", name, k.Reason, k.Because, r.Verdict.Blame)
			}
		}
		if c.want != "" && k.Reason != c.want {
			t.Errorf("%s: %s, want %s", name, k.Reason, c.want)
		}
		if strings.Contains(k.Next, "wait for") && k.Reason == diag.ReasonIdentityRejectedRecoverable {
			t.Errorf("%s: nothing comes of waiting without a token: %s", name, k.Next)
		}
	}
}

// TestAnEntryIsOfItsTime: a record entry about a result that could not be posted is not a present reason in a walk that
// passes, whatever the walk leaves out, and is shown with its time. In a walk that sees a missing result it is the
// reason.
func TestAnEntryIsOfItsTime(t *testing.T) {
	notPosted := diag.RecordEntry{Reason: diag.RecTaskResultPostFailed, About: "task_result", Decision: "retry",
		Failure: diag.HTTPStatus, Status: 502}
	contact := diag.RecordEntry{Reason: diag.RecProcessAlive, About: "heartbeat", Decision: classify.DecisionContact}
	for name, entries := range map[string][]diag.RecordEntry{"with a contact since": {notPosted, contact},
		"without": {notPosted}} {
		r := walkPart(t, false, []diag.HopID{diag.HopNodeRecoveryStatus},
			map[string]func(*diag.Fact){recordFact: wrote(entries...)})
		k := r.Classification
		if r.Verdict.Outcome != diag.OutcomePass || k.Reason != diag.ReasonNone || k.NeedsSomebody() {
			t.Errorf("%s: %s, reason %s because %q", name, r.Verdict.Outcome, k.Reason, k.Because)
		}
		if len(k.Losers) != 1 || !strings.HasPrefix(k.Losers[0].Why, "as of ") {
			t.Errorf("%s: the entry is not named: %+v", name, k.Losers)
		}
	}
	late := func(f *diag.Fact) {
		f.HTTP.Fields["task.status"], f.Failure, f.Phase = "dispatched", diag.Timeout, "poll"
	}
	r := walkWith(t, map[string]func(*diag.Fact){recordFact: wrote(notPosted, contact), "node_task_roundtrip/task": late})
	if r.Classification.Reason != diag.ReasonTaskResultPostFailed {
		t.Errorf("%s", r.Classification.Reason)
	}
}

// TestThePlatformsWordIsFound: a state of the node that needs an operator, and that no hop found, fails the hop that
// read it; a walk never passes with such a state.
func TestThePlatformsWordIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		field, value string
		outcome      diag.Outcome
		reason       diag.ReasonCode
	}{
		"revoked": {"node.identity", "revoked", diag.OutcomeFail, diag.ReasonIdentityRevokedOrFenced},
		"blocked": {"node.recovery_reason", "recovery_enrollment_blocked", diag.OutcomeFail,
			diag.ReasonRecoveryEnrollmentBlocked},
		"a backlog":       {"node.stale_tasks", "3", diag.OutcomeFail, diag.ReasonTaskBacklogStale},
		"a lost result":   {"node.lost_results", "1", diag.OutcomePass, diag.ReasonDispatchedResultLost},
		"nothing":         {"node.recovery_reason", "none", diag.OutcomePass, diag.ReasonNone},
		"an unknown word": {"node.recovery_reason", "of_tomorrow", diag.OutcomePass, diag.ReasonNone},
		// the node's own request, which the heartbeat brings, is let in
		"an issuer's word": {"node.check_issuer", "fail", diag.OutcomeWarn, diag.ReasonNone},
	} {
		r := walkPart(t, false, []diag.HopID{diag.HopControlPlaneAccess, diag.HopNodeHeartbeat},
			map[string]func(*diag.Fact){"node_heartbeat/read_model": setField(c.field, c.value)})
		if r.Verdict.Outcome != c.outcome || r.Classification.Reason != c.reason ||
			r.Classification.NeedsSomebody() != (c.outcome == diag.OutcomeFail) {
			t.Errorf("%s: %s, %s, needs somebody %v", name, r.Verdict.Outcome, r.Classification.Reason,
				r.Classification.NeedsSomebody())
		}
		if v := r.Verdict; c.outcome == diag.OutcomeFail &&
			(v.Blame.Hop != diag.HopNodeHeartbeat || v.Owner == "" || len(v.Recovery) == 0) {
			t.Errorf("%s: blame %+v, owner %q", name, v.Blame, v.Owner)
		}
	}
	both := walkWith(t, map[string]func(*diag.Fact){"node_heartbeat/read_model": setField("node.check_issuer", "fail")})
	if h := hopOf(both, diag.HopNodeRecoveryStatus); h.Status != diag.StatusWarn || both.Classification.NeedsSomebody() {
		t.Errorf("a task wait is let in, and the platform says that the issuer is not trusted: %s %s, %s", h.Status, h.Text,
			both.Classification.Reason)
	}
}
