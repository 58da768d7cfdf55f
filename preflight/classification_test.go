package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/classify"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

const recordFact = "node_recovery_status/host_record"

func wrote(entries ...diag.RecordEntry) func(*diag.Fact) {
	return func(f *diag.Fact) {
		for i := range entries {
			entries[i].Seq, entries[i].BootID, entries[i].MonoNS = uint64(i+1), "boot-1", int64(i)
			entries[i].At = diag.At(noon)
		}
		f.Record = &diag.RecordFacts{Source: "disk", Slots: 320, Entries: entries}
	}
}

func silent(f *diag.Fact) {
	f.HTTP.Fields["node.last_seen_at"] = noon.Add(-10 * time.Minute).Format(time.RFC3339Nano)
}

func stepOf(r *diag.Report, hop diag.HopID, name string) diag.StepResult {
	for _, s := range hopOf(r, hop).Steps {
		if s.Name == name {
			return s
		}
	}
	return diag.StepResult{}
}

// TestAnAgentWithoutARecordIsNoFault: a record that cannot be read was not measured, and the walk passes.
func TestAnAgentWithoutARecordIsNoFault(t *testing.T) {
	for _, word := range []diag.Failure{diag.FileMissing, diag.Unsupported, diag.NotPermitted, diag.FileUnreadable} {
		r := walkWith(t, map[string]func(*diag.Fact){
			recordFact: func(f *diag.Fact) { f.Failure, f.Phase, f.Record = word, "read", nil },
		})
		if s := stepOf(r, diag.HopNodeRecoveryStatus, hop.StepHostRecord); r.Verdict.Outcome != diag.OutcomePass ||
			s.Status != diag.StatusSkipped {
			t.Errorf("%s: outcome %s, step %s %s", word, r.Verdict.Outcome, s.Status, s.Because)
		}
		if s := stepOf(r, diag.HopNodeRecoveryStatus, "classifier"); s.Status != diag.StatusPass ||
			r.Classification == nil || r.Classification.Reason != diag.ReasonNone {
			t.Errorf("%s: classifier %s, %+v", word, s.Status, r.Classification)
		}
	}
}

// TestAPlatformWithoutRecordsIsNotAskedForThem: the step host_record is not planned.
func TestAPlatformWithoutRecordsIsNotAskedForThem(t *testing.T) {
	p := testProfile()
	p.Mapping.Record = new(bool)
	plan := hops.BuiltIn().NewPlan(p, hop.NewSubject(p, "node-1", "", "", ""), hop.Options{Token: true, SSH: true})
	for _, h := range plan.Hops {
		if h.ID == diag.HopNodeRecoveryStatus && h.Left[hop.StepHostRecord] == "" {
			t.Errorf("host_record is planned: %v", h.Left)
		}
	}
}

// TestASilentNodeSpeaksThroughItsRecord: no probe finds a fault, the platform hears nothing, and the record shows the
// cause.
func TestASilentNodeSpeaksThroughItsRecord(t *testing.T) {
	trouble := diag.RecordEntry{Reason: diag.RecServerTLSUntrusted, About: "heartbeat", Decision: "retry",
		Failure: diag.TLSUnknownCA}
	r := walkWith(t, map[string]func(*diag.Fact){"node_heartbeat/read_model": silent, recordFact: wrote(trouble),
		"node_task_roundtrip/task": nobodyClaims})
	h := hopOf(r, diag.HopNodeRecoveryStatus)
	if h.Status != diag.StatusFail || h.Signal != diag.SigHeartbeatStale || h.Reason != diag.ReasonServerTLSUntrusted {
		t.Errorf("hop 7: %s %s %s", h.Status, h.Signal, h.Reason)
	}
	if v := r.Verdict; v.Blame == nil || v.Blame.Hop != diag.HopNodeRecoveryStatus ||
		v.FirstFailedHop != diag.HopNodeHeartbeat || v.Reason != diag.ReasonServerTLSUntrusted {
		t.Errorf("%+v", v)
	}

	contact := diag.RecordEntry{Reason: diag.RecProcessAlive, About: "heartbeat", Decision: classify.DecisionContact}
	r = walkWith(t, map[string]func(*diag.Fact){"node_heartbeat/read_model": silent, recordFact: wrote(trouble, contact),
		"node_task_roundtrip/task": nobodyClaims})
	if r.Verdict.Reason != diag.ReasonNodeAgentUnreachable {
		t.Errorf("history is shown as the present: %s", r.Verdict.Reason)
	}
	r = walkWith(t, map[string]func(*diag.Fact){recordFact: wrote(trouble)})
	if r.Verdict.Outcome != diag.OutcomePass || r.Classification.Reason != diag.ReasonNone ||
		len(r.Classification.Losers) == 0 {
		t.Errorf("the platform hears the node: %s, %s", r.Verdict.Outcome, r.Classification.Reason)
	}
}

// TestOnlyThisOperatorIsCutOff: the node is let in, so the API is not unreachable for it; but not all five points were
// measured.
func TestOnlyThisOperatorIsCutOff(t *testing.T) {
	r := walkWith(t, map[string]func(*diag.Fact){"control_plane_access/healthz": failWith(diag.TCPTimeout, "tcp")})
	if r.Verdict.Blame == nil || r.Verdict.Blame.Hop != diag.HopControlPlaneAccess ||
		r.Verdict.Reason != diag.ReasonNone || r.Verdict.UserState != diag.UserUnknown {
		t.Errorf("%+v", r.Verdict)
	}
}

// TestAReportOfBeforeTheRepair: the platform still has what the agent reported before its restart; the running agent's
// own environment is newer.
func TestAReportOfBeforeTheRepair(t *testing.T) {
	for name, c := range map[string]struct {
		read, variable, running string
		reason                  diag.ReasonCode
	}{
		"terminal, still": {"node.agent_terminal_url", "GPUAAS_TERMINAL_API_URL", "https://term.test:18444",
			diag.ReasonTerminalEndpointDrift},
		"terminal, repaired": {"node.agent_terminal_url", "GPUAAS_TERMINAL_API_URL", testProfile().NodeTerminalURL,
			diag.ReasonNone},
		"terminal, not to read": {"node.agent_terminal_url", "GPUAAS_TERMINAL_API_URL", "", diag.ReasonTerminalEndpointDrift},
		"API, repaired":         {"node.agent_api_url", "GPUAAS_API_URL", testProfile().NodeRuntimeAPIURL, diag.ReasonNone},
		"API, not to read":      {"node.agent_api_url", "GPUAAS_API_URL", "", diag.ReasonEndpointProfileDrift},
	} {
		r := walkWith(t, map[string]func(*diag.Fact){
			"node_heartbeat/read_model": func(f *diag.Fact) {
				f.HTTP.Fields[c.read], f.HTTP.Fields["node.recovery_reason"] = "https://elsewhere.test", "endpoint_profile_drift"
			},
			"node_recovery_status/profile": func(f *diag.Fact) {
				f.Env.Values = map[string]string{"GPUAAS_API_URL": "https://node-api.test", c.variable: c.running}
			},
		})
		if k := r.Classification; k.Reason != c.reason ||
			(c.reason == diag.ReasonNone && (len(k.Losers) != 1 || !strings.HasPrefix(k.Losers[0].Why, "superseded: "))) {
			t.Errorf("%s: %s because %q, losers %v", name, k.Reason, k.Because, k.Losers)
		}
	}
}

// TestAnOldAgentIsAWarning: a walk with an agent of another version warns, and does not fail.
func TestAnOldAgentIsAWarning(t *testing.T) {
	r := walkWith(t, map[string]func(*diag.Fact){"node_heartbeat/read_model": func(f *diag.Fact) {
		f.HTTP.Fields["node.agent_version"], f.HTTP.Fields["node.agent_desired_version"] = "v1", "v2"
	}})
	if r.Verdict.Outcome != diag.OutcomeWarn || r.Verdict.Reason != diag.ReasonAgentVersionDrift {
		t.Errorf("%s %s", r.Verdict.Outcome, r.Verdict.Reason)
	}
}

// TestTokenState combines what the platform issued with what the node has.
func TestTokenState(t *testing.T) {
	for _, c := range []struct {
		issued, held string
		want         classify.TokenState
	}{
		{"", "present, issued 2h ago", classify.TokenUnknown},
		{"", "", classify.TokenGone},
		{"", "empty", classify.TokenGone},
		{"true", "present", classify.TokenCurrent},
		{"false", "present", classify.TokenGone},
		{"true", "present, until 2026-01-02T11:59:59Z", classify.TokenGone},
		{"true", "present, until 2026-01-02T12:00:01Z", classify.TokenCurrent},
		{"", "present, until 2026-01-02T12:00:01Z", classify.TokenCurrent},
		{"", "present", classify.TokenUnknown},
		{"false", "present, until 2026-01-02T12:00:01Z", classify.TokenGone},
	} {
		heartbeat := diag.Fact{ID: "node_heartbeat/read_model",
			HTTP: &diag.HTTPFacts{Fields: map[string]string{"node.recovery_current_token": c.issued}}}
		env := diag.Fact{
			ID: "node_recovery_status/profile", At: diag.At(noon),
			Request: diag.Request{Env: []string{profile.DefaultAgentNames().Token}},
			Env:     &diag.EnvFacts{Secret: map[string]string{profile.DefaultAgentNames().Token: c.held}},
		}
		if got := world.TokenState(hops.BuiltIn().NewCase(diag.Subject{}, diag.Plan{}, diag.EndedCompleted,
			[]diag.Fact{heartbeat, env})); got != c.want {
			t.Errorf("issued %q, held %q: %q, want %q", c.issued, c.held, got, c.want)
		}
	}
}
