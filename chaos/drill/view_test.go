package drill

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestSays: a walk in one line, by what it found first.
func TestSays(t *testing.T) {
	for want, w := range map[string]WalkView{
		"node_heartbeat node_agent_heartbeat_stale": {EndedBy: diag.EndedCompleted, Outcome: diag.OutcomeFail,
			Blame: &diag.Blame{Hop: diag.HopNodeHeartbeat, Signal: diag.SigHeartbeatStale}},
		"node_heartbeat node_agent_heartbeat_stale (tcp_refused)": {EndedBy: diag.EndedInterrupted,
			Blame: &diag.Blame{Hop: diag.HopNodeHeartbeat, Signal: diag.SigHeartbeatStale, Failure: diag.TCPRefused}},
		"pass, ended by interrupted": {EndedBy: diag.EndedInterrupted, Outcome: diag.OutcomePass,
			UserState: diag.UserOperator},
		"warn, and operator_action_required (agent_down)": {EndedBy: diag.EndedCompleted, Outcome: diag.OutcomeWarn,
			UserState: diag.UserOperator, Reason: diag.ReasonAgentDown, Unfailed: []diag.Blame{{Hop: diag.HopGPUHealth}}},
		"gpu_health gpu_degraded (warn)": {EndedBy: diag.EndedCompleted, Outcome: diag.OutcomeInconclusive,
			UserState: diag.UserOperator, Undecided: "x",
			Unfailed: []diag.Blame{{Hop: diag.HopGPUHealth, Signal: diag.SigGPUDegraded, Status: diag.StatusWarn}}},
		"inconclusive, gpu_health: no driver": {EndedBy: diag.EndedCompleted, Outcome: diag.OutcomeInconclusive,
			Undecided: "gpu_health: no driver"},
		"pass": {EndedBy: diag.EndedCompleted, Outcome: diag.OutcomePass},
	} {
		if got := w.VerdictLine(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestGreen: a complete walk that passed or warned, and asks nobody to act.
func TestGreen(t *testing.T) {
	for _, ended := range []diag.EndedBy{diag.EndedCompleted, diag.EndedInterrupted, diag.EndedError} {
		for _, outcome := range []diag.Outcome{diag.OutcomePass, diag.OutcomeWarn, diag.OutcomeFail,
			diag.OutcomeInconclusive} {
			for state, asks := range map[diag.UserState]bool{"": false, diag.UserNormal: false, diag.UserOperator: true,
				diag.UserSecurity: true} {
				want := ended == diag.EndedCompleted && !asks && slices.Contains([]diag.Outcome{diag.OutcomePass,
					diag.OutcomeWarn}, outcome)
				if got := (WalkView{EndedBy: ended, Outcome: outcome, UserState: state}).Green(); got != want {
					t.Errorf("%s, %s, %q: %v", ended, outcome, state, got)
				}
			}
		}
	}
}

// TestSee: what a drill takes from a report.
func TestSee(t *testing.T) {
	hop := func(id diag.HopID, f diag.Finding) diag.HopResult { return diag.HopResult{ID: id, Finding: f} }
	r := &diag.Report{Hops: []diag.HopResult{
		hop(diag.HopNodeHeartbeat, diag.Finding{Status: diag.StatusPass, Signal: diag.SigHeartbeatStale}),
		hop(diag.HopGPUHealth, diag.Finding{Status: diag.StatusWarn, Signal: diag.SigGPUDegraded}),
		hop(diag.HopNodeReadiness, diag.Finding{Status: diag.StatusWarn}),
		hop(diag.HopNodeOpsAccess, diag.Finding{Status: diag.StatusInconclusive, Signal: diag.SigDiskFull, Text: "no key",
			Failure: diag.TCPRefused}),
		hop(diag.HopNodeRuntimeAPI, diag.Finding{Status: diag.StatusInconclusive, Text: "second"}),
	}}
	r.Verdict.Outcome = diag.OutcomeInconclusive
	r.Verdict.Blame = &diag.Blame{Hop: diag.HopNodeOpsAccess, Status: diag.StatusInconclusive}
	s := NewWalkView(r, After)
	want := []diag.Blame{{Hop: diag.HopGPUHealth, Signal: diag.SigGPUDegraded, Status: diag.StatusWarn},
		{Hop: diag.HopNodeOpsAccess, Signal: diag.SigDiskFull, Status: diag.StatusInconclusive, Failure: diag.TCPRefused}}
	if !reflect.DeepEqual(s.Unfailed, want) || s.Stage != After || s.Blame != nil ||
		s.Undecided != "node_ops_access: no key" || len(s.Hops) != len(r.Hops) {
		t.Errorf("%+v", s)
	}
	r.Verdict.Outcome, r.Verdict.Blame = diag.OutcomeFail, &diag.Blame{Hop: diag.HopNodeOpsAccess}
	if s := NewWalkView(r, During); s.Undecided != "" || s.Blame == nil || s.Blame.Hop != diag.HopNodeOpsAccess {
		t.Errorf("of a walk that failed: %+v", s)
	}
	if ids := s.HopIDs(); len(ids) != len(r.Hops) || !slices.IsSortedFunc(ids, func(a, b diag.HopID) int {
		return a.Rank() - b.Rank()
	}) {
		t.Errorf("%v", ids)
	}
}

// TestReadModel: what the platform said of the walk's own things, by name; an empty value says nothing.
func TestReadModel(t *testing.T) {
	fact := func(fields map[string]string) diag.Fact { return diag.Fact{HTTP: &diag.HTTPFacts{Fields: fields}} }
	r := &diag.Report{Facts: []diag.Fact{{}, fact(map[string]string{"node.status": "ready", "allocation.id": "a",
		"task.id": "t", "session.id": "s", "node.ip": "", "user.name": "ann"}), fact(map[string]string{"task.id": "t2"})}}
	want := map[string]string{"node.status": "ready", "allocation.id": "a", "task.id": "t2", "session.id": "s"}
	if got := readModel(r); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestUnnamed: the platform must name a failure that ends a session which reached it, and it is over.
func TestUnnamed(t *testing.T) {
	for name, tc := range map[string]struct {
		connected, reason string
		want              int
	}{
		"a normal end": {"2026-11-21T09:00:00Z", "exit", 1}, "it is open": {"2026-11-21T09:00:00Z", "", 0},
		"it is named": {"2026-11-21T09:00:00Z", "node_stream_timeout", 0}, "it never reached the platform": {"", "exit", 0},
	} {
		s := WalkView{Hops: map[diag.HopID]diag.Status{diag.HopGatewayNodeStream: diag.StatusFail,
			diag.HopNodeHeartbeat: diag.StatusFail, diag.HopBrowserTerminalWS: diag.StatusPass},
			ReadModel: map[string]string{"session.browser_connected_at": tc.connected, "session.close_reason": tc.reason}}
		if got := unnamed(s); len(got) != tc.want || (len(got) > 0 && got[0] != diag.HopGatewayNodeStream) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUnlinked: a component that handled the walk must have logged its id. One that did not handle it need not.
func TestUnlinked(t *testing.T) {
	const id = "c1"
	asked := func(change func(f *diag.Fact)) diag.Fact {
		f := diag.Fact{Request: diag.Request{Op: diag.OpHTTP, Method: "POST"},
			HTTP: &diag.HTTPFacts{Fields: map[string]string{"task.id": "t"}}}
		change(&f)
		return f
	}
	session := func(ws *diag.WSFacts) diag.Fact {
		return diag.Fact{Request: diag.Request{Op: diag.OpSession}, WS: ws}
	}
	line := func(kind, id string) diag.EvidenceLine { return diag.EvidenceLine{Kind: kind, CorrelationID: id} }
	for name, tc := range map[string]struct {
		f    diag.Fact
		want string
	}{
		"a task":               {asked(func(*diag.Fact) {}), "task"},
		"a task that failed":   {asked(func(f *diag.Fact) { f.Failure = diag.TCPRefused }), ""},
		"a task that was read": {asked(func(f *diag.Fact) { f.Request.Method = "GET" }), ""},
		"no task":              {asked(func(f *diag.Fact) { f.HTTP.Fields["task.id"] = "" }), ""},
		"no response":          {asked(func(f *diag.Fact) { f.HTTP = nil }), ""},
		"a completed task": {asked(func(f *diag.Fact) {
			f.HTTP.Fields = map[string]string{"task.status": "COMPLETED"}
		}), "agent"},
		"a completed task, in a response that failed": {asked(func(f *diag.Fact) {
			f.HTTP.Fields, f.Failure = map[string]string{"task.status": "completed"}, diag.HTTPEdgePage
		}), ""},
		"a task that waits": {asked(func(f *diag.Fact) { f.HTTP.Fields = map[string]string{"task.status": "queued"} }),
			""},
		"a session":          {session(&diag.WSFacts{Upgraded: true}), "gateway"},
		"no upgrade":         {session(&diag.WSFacts{}), ""},
		"no WebSocket":       {session(nil), ""},
		"another connection": {diag.Fact{Request: diag.Request{Op: diag.OpHTTP}, WS: &diag.WSFacts{Upgraded: true}}, ""},
	} {
		kinds := map[string]string{"task": "task.queued", "agent": "task.completed",
			"gateway": "terminal.browser_connected"}
		r := &diag.Report{Run: diag.Run{CorrelationID: id}, Facts: []diag.Fact{tc.f}}
		for component, kind := range kinds { // of other walks, and of other components
			r.Evidence = append(r.Evidence, line(kind, "other"))
			if tc.want != "" && component != tc.want {
				r.Evidence = append(r.Evidence, line(kind, id))
			}
		}
		want := []string{tc.want}
		if tc.want == "" {
			want = nil
		}
		if got := unlinked(r); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		r.Evidence = append(r.Evidence, line(kinds[tc.want], id))
		if got := unlinked(r); len(got) > 0 {
			t.Errorf("%s, and its line is there: %v", name, got)
		}
	}
}

// TestOwned: the agent's record is older than the run; only tasks of the run's walks count.
func TestOwned(t *testing.T) {
	earlier := []WalkView{{N: 1, ReadModel: map[string]string{"task.id": "t1"}}, {N: 2}}
	r := &diag.Report{Facts: []diag.Fact{{}, {Record: &diag.RecordFacts{Entries: []diag.RecordEntry{
		{TaskID: "t1", CorrelationID: "c1"}, {TaskID: "t3", CorrelationID: "c3"}, {TaskID: "older", CorrelationID: "c0"},
		{CorrelationID: "of no task"}}}}}}
	s := NewWalkView(r, During)
	if len(s.AgentSays) != 3 {
		t.Errorf("%v", s.AgentSays)
	}
	s.ReadModel = map[string]string{"session.task_id": "t3", "task.id": ""}
	s.owned(earlier)
	if want := map[string]string{"t1": "c1", "t3": "c3"}; !maps.Equal(s.AgentSays, want) {
		t.Errorf("%v", s.AgentSays)
	}
	if s = NewWalkView(r, During); len(s.AgentSays) == 3 {
		s.owned(earlier[1:])
	}
	if s.AgentSays != nil {
		t.Errorf("%v", s.AgentSays)
	}
}
