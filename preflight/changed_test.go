package preflight

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// TestAllocationChangesInTheWalk: a failure that is due to a release, a move or a deploy of the allocation during the
// walk is not blamed on a hop, whatever the platform calls the state. A failure without such a change is.
func TestAllocationChangesInTheWalk(t *testing.T) {
	first, again := hop.FactID(diag.HopAllocationBinding, hop.StepAllocation),
		hop.FactID(diag.HopAllocationBinding, "allocation_after")
	state := func(v string) func(*diag.Fact) { return setField("allocation.state", v) }
	onNode := func(v string) func(*diag.Fact) { return setField("allocation.node_id", v) }
	stopped := func(f *diag.Fact) {
		f.Failure, f.Phase, f.Unit = diag.UnitInactive, "systemctl", &diag.UnitFacts{Active: "inactive", Sub: "dead"}
	}
	noUser := func(f *diag.Fact) { f.Failure, f.Phase, f.User = diag.UserMissing, "user", nil }
	refused := func(f *diag.Fact) {
		failWith(diag.HTTPStatus, "http")(f)
		f.HTTP = &diag.HTTPFacts{Status: 409, ErrorCode: "conflict"}
	}
	unknown := func(f *diag.Fact) {
		failWith(diag.HTTPStatus, "http")(f)
		f.HTTP = &diag.HTTPFacts{Status: 404}
	}
	unit, user, mint := hop.FactID(diag.HopAppRuntimeLiveness, hop.StepUnit), hop.FactID(diag.HopTerminalStartup,
		hop.StepUser), hop.FactID(diag.HopTerminalTokenMint, hop.StepMint)
	route := hop.FactID(diag.HopAppUserRoute, hop.StepRoute)
	for name, c := range map[string]struct {
		answers answers
		outcome diag.Outcome
		text    string // of the allocation's hop, or of the blame
	}{
		"released": {
			answers{again: state("releasing"), unit: stopped, user: noUser, route: failWith(diag.DNSNXDomain, "dns")},
			diag.OutcomeInconclusive, "(active, then releasing)",
		},
		"released, and its row is gone": {answers{again: unknown, unit: stopped}, diag.OutcomeInconclusive,
			"(active, then unknown to the platform)"},
		"suspended": {answers{again: state("suspended"), mint: refused},
			diag.OutcomeInconclusive, "(active, then suspended)"},
		"moved": {answers{again: onNode("node-2"), user: noUser},
			diag.OutcomeInconclusive, "node-2"},
		"deployed": {answers{again: setField("allocation.app_unit", "b.service"), unit: stopped},
			diag.OutcomeInconclusive, "b.service"},
		"it comes": {answers{first: state("provisioning"), again: state("active")},
			diag.OutcomeInconclusive, "(provisioning, then active)"},
		"it came to": {answers{first: onNode("node-2"), again: onNode("node-1")},
			diag.OutcomeInconclusive, "node-2"},

		"released, then gone": {answers{first: state("releasing"), again: state("released")},
			diag.OutcomeFail, "is releasing, not active"},
		"not active":      {answers{first: state("suspended")}, diag.OutcomeFail, "is suspended, not active"},
		"nothing changed": {answers{unit: stopped}, diag.OutcomeFail, "does not run"},
		"the second look is lost": {answers{again: failWith(diag.TCPTimeout, "tcp"), unit: stopped},
			diag.OutcomeFail, "does not run"},
		"nothing failed": {answers{again: state("releasing")}, diag.OutcomePass, ""},
	} {
		r := walkWith(t, c.answers)
		text := hopOf(r, diag.HopAllocationBinding).Because
		if b := r.Verdict.Blame; b != nil {
			text = b.Text
		}
		if r.Verdict.Outcome != c.outcome || !strings.Contains(text, c.text) ||
			(c.outcome == diag.OutcomeInconclusive && (r.Verdict.Blame != nil || r.Classification.NeedsSomebody())) {
			t.Errorf("%s: %s, %q, blame %+v, reason %s\n%s", name, r.Verdict.Outcome, text, r.Verdict.Blame,
				r.Classification.Reason, describe(r))
		}
		if h := hopOf(r, diag.HopAllocationBinding); h.DurationMS > 10 {
			t.Errorf("%s: the hop took %d ms: the second look counts", name, h.DurationMS)
		}
	}
}

// TestSecondLookIsAskedOnce: a second reading that gets no answer has neither repeats nor counter-probes, since nothing
// would wait for them.
func TestSecondLookIsAskedOnce(t *testing.T) {
	again := hop.FactID(diag.HopAllocationBinding, "allocation_after")
	r := walkWith(t, answers{hop.FactID(diag.HopAppRuntimeLiveness, hop.StepUnit): unitIs(diag.UnitInactive, "inactive",
		"dead")}, again)
	var asked []string
	for _, f := range r.Facts {
		if strings.HasPrefix(f.ID, again) {
			asked = append(asked, f.ID)
		}
	}
	if !slices.Equal(asked, []string{again}) || r.Verdict.Blame == nil {
		t.Errorf("asked %q, blame %+v", asked, r.Verdict.Blame)
	}
}

// TestNodeIsReadAgain: a problem in the platform's read model of a node counts only if it is still there at the end.
func TestNodeIsReadAgain(t *testing.T) {
	again := hop.FactID(diag.HopNodeHeartbeat, "node_after")
	good := func(f *diag.Fact) { healthyAgain(f) }
	ago := func(d time.Duration) string { return noon.Add(-d).Format(time.RFC3339Nano) }
	old := allOf(setField("node.last_seen_at", ago(time.Hour)), setField("node.check_heartbeat", "fail"),
		setField("node.recovery_reason", "node_agent_unreachable"))
	lost := allOf(setField("node.lost_results", "1"), setField("node.recovery_reason", "dispatched_result_lost"))
	cloned := setField("node.recovery_reason", "cloned_identity_detected")
	none := func(f *diag.Fact) {
		failWith(diag.TCPTimeout, "tcp")(f)
	}
	inactive := func(f *diag.Fact) {
		f.Failure, f.Phase = diag.UnitInactive, "systemctl"
		f.Unit = &diag.UnitFacts{Active: "inactive", Sub: "dead"}
	}
	frozen := func(f *diag.Fact) {
		f.Failure, f.Phase = diag.ProcessStopped, "process"
		f.Unit = &diag.UnitFacts{Active: "active", Sub: "running", PID: 9, ProcessState: "T"}
	}
	later := func(f *diag.Fact) { f.OffsetMS = time.Minute.Milliseconds() }
	task, process := hop.FactID(diag.HopNodeTaskRoundtrip, hop.StepTask), hop.FactID(diag.HopNodeReadiness,
		hop.StepProcess)
	for name, c := range map[string]struct {
		answers answers
		outcome diag.Outcome
		reason  diag.ReasonCode
	}{
		"results that come": {answers{readModelFact: lost, again: good}, diag.OutcomePass, diag.ReasonNone},
		"results that do not": {answers{readModelFact: lost, again: lostStill},
			diag.OutcomePass, diag.ReasonDispatchedResultLost},
		"results, not known": {answers{readModelFact: lost, again: none}, diag.OutcomePass, diag.ReasonNone},
		"taken back": {answers{readModelFact: setField("node.identity", "revoked"), again: good},
			diag.OutcomePass, diag.ReasonNone},
		"revoked": {answers{readModelFact: setField("node.identity", "revoked")},
			diag.OutcomeFail, diag.ReasonIdentityRevokedOrFenced},
		"a clone that is gone": {answers{readModelFact: cloned, again: good},
			diag.OutcomePass, diag.ReasonNone},
		"a clone": {answers{readModelFact: cloned},
			diag.OutcomeFail, diag.ReasonClonedIdentity},
		"the agent comes back": {answers{readModelFact: old, again: good, task: nobodyClaims, process: inactive},
			diag.OutcomeInconclusive, diag.ReasonNone},
		"it does not": {answers{readModelFact: old, task: nobodyClaims, process: inactive},
			diag.OutcomeFail, diag.ReasonAgentDown},
		"it stops beside its no-op": {answers{process: inactive},
			diag.OutcomeInconclusive, diag.ReasonNone},
		"it stops after its no-op": {answers{process: allOf(inactive, later)},
			diag.OutcomeFail, diag.ReasonAgentDown},
		"it is frozen beside its no-op": {answers{process: frozen},
			diag.OutcomeWarn, diag.ReasonNone},
		"it is frozen after its no-op": {answers{process: allOf(frozen, later)},
			diag.OutcomeFail, diag.ReasonAgentDown},
	} {
		r := walkWith(t, c.answers)
		if r.Verdict.Outcome != c.outcome || r.Classification.Reason != c.reason {
			t.Errorf("%s: %s, reason %s because %q\n%s", name, r.Verdict.Outcome, r.Classification.Reason,
				r.Classification.Because, describe(r))
		}
	}
}

// healthyAgain makes an answer that of a node without a problem.
func healthyAgain(f *diag.Fact) {
	h := healthy(diag.Request{ID: hop.FactID(diag.HopNodeHeartbeat, hop.StepReadModel)})
	f.HTTP = h.HTTP
}

// lostStill is the answer to a poll for results that did not come.
func lostStill(f *diag.Fact) {
	f.HTTP.Fields["node.lost_results"], f.HTTP.Fields["node.recovery_reason"] = "1", "dispatched_result_lost"
	f.Failure, f.Phase = diag.HTTPTimeout, "poll"
}
