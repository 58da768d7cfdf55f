package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestUnjudgedIsNoPass: a failing fact that is neither covered by a judge nor excused counts as not measured.
func TestUnjudgedIsNoPass(t *testing.T) {
	upgradeRefused := func(f *diag.Fact) {
		f.Failure, f.Phase, f.PTY = diag.WSUpgradeRejected, "ws", nil
		f.WS, f.HTTP = &diag.WSFacts{Status: 503}, &diag.HTTPFacts{Status: 503, ErrorCode: "session_store_unavailable"}
	}
	unread := func(f *diag.Fact) {
		f.Failure, f.Phase, f.HTTP = diag.HTTPStatus, "http", &diag.HTTPFacts{Status: 500}
	}
	timedOut := func(f *diag.Fact) { f.Failure, f.User, f.Env = diag.Timeout, nil, nil }
	unanswered := func(f *diag.Fact) {
		f.HTTP.Fields["session.task_status"], f.Failure, f.Phase = "dispatched", diag.HTTPTimeout, "poll"
	}
	for name, tc := range map[string]struct {
		answers answers
		hop     diag.HopID
		want    diag.Status
		because string
	}{
		"a shell behind a refused upgrade": {answers{"browser_terminal_ws/session": upgradeRefused},
			diag.HopTerminalStartup, diag.StatusNotReached, "shell: needs an accepted browser session"},
		"a session that cannot be read": {answers{"terminal_open_task/session": unread}, diag.HopGatewayNodeStream,
			diag.StatusInconclusive, "could not be read"},
		"a user that nobody looked up": {answers{"workload_terminal_startup_failure/user": timedOut},
			diag.HopTerminalStartup, diag.StatusInconclusive, "user: timeout"},
		"an environment that was not read": {answers{"node_recovery_status/profile": timedOut},
			diag.HopNodeRecoveryStatus, diag.StatusInconclusive, "profile: timeout"},
		"a terminal.open without answer": {
			answers{"terminal_open_task/session": unanswered, "browser_terminal_ws/session": streamTimeout},
			diag.HopTerminalOpenTask, diag.StatusInconclusive, "not answered yet",
		},
		"a terminal.open that expired unanswered": {
			answers{"terminal_open_task/session": setField("session.task_status", "expired"),
				"browser_terminal_ws/session": streamTimeout}, diag.HopTerminalOpenTask, diag.StatusFail, "",
		},
		"a ready terminal without answer": {answers{"terminal_open_task/session": unanswered,
			"browser_terminal_ws/session": func(f *diag.Fact) {
				f.Failure, f.Phase, f.PTY = diag.PTYSilent, "session", nil
			}}, diag.HopTerminalOpenTask, diag.StatusFail, ""},
		"an allocation on no node": {answers{"allocation_binding/allocation": setField("allocation.node_id", "")},
			diag.HopAllocationBinding, diag.StatusInconclusive, "allocation.node_id"},
		"a stale look at a workload that nobody saw": {answers{
			"allocation_binding/allocation": setField("allocation.app_last_observed_at", "2026-01-02T11:00:00Z"),
			"node_ops_access/ssh":           func(f *diag.Fact) { f.Failure, f.Phase, f.SSH = diag.TCPRefused, "tcp", nil },
		}, diag.HopAppRuntimeLiveness, diag.StatusNotReached, "needs node_ops_access"},
		"an old agent whose task wait was not measured": {answers{
			"node_heartbeat/read_model": func(f *diag.Fact) {
				f.HTTP.Fields["node.agent_version"], f.HTTP.Fields["node.agent_desired_version"] = "v1", "v2"
			},
			"node_runtime_api_reachability/reach": failWith(diag.TCPTimeout, "tcp"),
		}, diag.HopNodeRecoveryStatus, diag.StatusNotReached, "task_wait: needs node_runtime_api_reachability"},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, tc.answers)
			h := hopOf(r, tc.hop)
			if h.Status != tc.want || !strings.Contains(h.Because, tc.because) {
				t.Errorf("%s is %s: %s%s; want %s: %s", tc.hop, h.Status, h.Text, h.Because, tc.want, tc.because)
			}
			for _, line := range r.Verdict.RuledOut {
				if strings.HasPrefix(line, string(tc.hop)) {
					t.Errorf("it is ruled out: %s", line)
				}
			}
			replaysToItself(t, r)
		})
	}
}

// TestAWarningIsKept: a warning is kept in a hop that was not measured completely.
func TestAWarningIsKept(t *testing.T) {
	old := func(f *diag.Fact) {
		f.HTTP.Fields["node.agent_version"], f.HTTP.Fields["node.agent_desired_version"] = "v1", "v2"
	}
	r := walkWith(t, answers{"node_heartbeat/read_model": old})
	if h := hopOf(r, diag.HopNodeRecoveryStatus); h.Status != diag.StatusWarn || h.Signal != diag.SigVersionDrift {
		t.Errorf("all was measured, and it is %s %s", h.Status, h.Signal)
	}
	r = walkWith(t, answers{"node_heartbeat/read_model": old, "node_recovery_status/profile": func(f *diag.Fact) {
		f.Failure, f.Env = diag.Timeout, nil
	}})
	if h := hopOf(r, diag.HopNodeRecoveryStatus); h.Status != diag.StatusInconclusive || len(h.Also) != 1 ||
		h.Also[0].Signal != diag.SigVersionDrift {
		t.Errorf("the environment was not read, and it is %s, also %+v", h.Status, h.Also)
	}
}

// TestLostLoginHidesNoShell: the dashboard shows the state of the terminal even if no login on the node works.
func TestLostLoginHidesNoShell(t *testing.T) {
	r := walkWith(t,
		answers{"node_ops_access/ssh": func(f *diag.Fact) { f.Failure, f.Phase, f.SSH = diag.TCPRefused, "tcp", nil }})
	if h := hopOf(r, diag.HopTerminalStartup); h.Status != diag.StatusNotReached ||
		r.Dashboard.TerminalReadiness != diag.TerminalPTYReady {
		t.Errorf("%s is %s, terminal readiness %s", h.ID, h.Status, r.Dashboard.TerminalReadiness)
	}
}

// TestSubjectIsLearnt: the platform's data about the node and the allocation is in the report's subject.
func TestSubjectIsLearnt(t *testing.T) {
	r := walkWith(t, answers{
		"node_heartbeat/read_model": func(f *diag.Fact) {
			f.HTTP.Fields["node.instance_id"], f.HTTP.Fields["node.provider_class"], f.HTTP.Fields["node.private_ip"] = "i-1",
				"proxmox", "192.0.2.101"
		},
		"allocation_binding/allocation": setField("allocation.workflow_id", "wf-1"),
	})
	s := r.Subject
	if s.NodeInstanceID != "i-1" || s.Provider != "proxmox" || s.PrivateIP != "192.0.2.101" || s.WorkflowID != "wf-1" ||
		s.SessionID != "" {
		t.Errorf("subject %+v", s)
	}
	replaysToItself(t, r)
}

// TestProviderClass: a missing stream of a Proxmox node is drift; that of another node is judged by its own
// reachability.
func TestProviderClass(t *testing.T) {
	for class, drift := range map[string]bool{"proxmox": true, "Proxmox-VE": true, "maas-lxd": false, "": false} {
		r := walkWith(t, answers{
			"node_heartbeat/read_model":   setField("node.provider_class", class),
			"browser_terminal_ws/session": streamTimeout, "terminal_open_task/session": noStream,
			"node_terminal_reachability/stream": failWith(diag.TCPTimeout, "tcp"),
		})
		for _, id := range []diag.HopID{diag.HopBrowserTerminalWS, diag.HopNodeTerminalReachability} {
			if h := hopOf(r, id); h.Signal != diag.SigNodeStreamTimeout ||
				strings.Contains(h.Text, "drift of the endpoint") != drift {
				t.Errorf("class %q: %s %s: %s", class, id, h.Signal, h.Text)
			}
		}
		if r.Verdict.Reason != diag.ReasonTerminalEndpointDrift {
			t.Errorf("class %q: reason %s", class, r.Verdict.Reason)
		}
	}
}
