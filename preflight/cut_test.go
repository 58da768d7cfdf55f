package preflight

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// stamp returns a time of the fixture's day.
func stamp(d time.Duration) string { return noon.Add(d).Format(time.RFC3339Nano) }

// cutWorld returns the answers of a walk whose session ended as in ws; row overrides fields of the gateway's row of a
// successful session.
func cutWorld(ws diag.WSFacts, row map[string]string, more ...func(answers)) answers {
	a := answers{
		"browser_terminal_ws/session": func(f *diag.Fact) {
			ws.Upgraded, ws.Status = true, 101
			f.WS, f.PTY, f.Failure, f.Phase, f.DurationMS = &ws, nil, diag.WSClosed, "ws", 1500
			if ws.Ended == "" && ws.CloseCode == 0 {
				f.Failure, f.PTY = diag.PTYSilent, &diag.PTYFacts{}
			}
		},
		"terminal_open_task/session": func(f *diag.Fact) {
			maps.Copy(f.HTTP.Fields, map[string]string{"session.closed_at": stamp(1500 * time.Millisecond),
				"session.task_completed_at": stamp(15 * time.Millisecond)})
			maps.Copy(f.HTTP.Fields, row)
		},
	}
	for _, m := range more {
		m(a)
	}
	return a
}

// TestCuts: the side that ended the stream, by the evidence of both ends, is blamed, and never the tenant's shell.
func TestCuts(t *testing.T) {
	eof := diag.WSFacts{FirstFrame: "ready", Ended: diag.WSEndEOF, CloseCode: 1006, EndedMS: 1400, QuietMS: 1000}
	closed := diag.WSFacts{FirstFrame: "ready", FrameCode: "node_stream_closed", Ended: diag.WSEndClose, CloseCode: 4502,
		CloseReason: "node_stream_closed"}
	left := map[string]string{"session.close_reason": "browser_closed", "session.closed_by": "browser",
		"session.close_code": "1006"}
	node := func(code, detail string) map[string]string {
		return map[string]string{"session.close_reason": "node_stream_closed", "session.closed_by": "node",
			"session.close_code": code, "session.close_detail": detail}
	}
	noField := func(names ...string) func(answers) { // a platform that has no such fields
		return func(a answers) {
			before := a["terminal_open_task/session"]
			a["terminal_open_task/session"] = func(f *diag.Fact) {
				before(f)
				extract := maps.Clone(f.Request.Extract)
				for _, n := range names {
					delete(extract, n)
					delete(f.HTTP.Fields, n)
				}
				f.Request.Extract = extract
			}
		}
	}
	unread := func(a answers) {
		a["terminal_open_task/session"] = func(f *diag.Fact) {
			f.HTTP, f.Failure, f.Phase = &diag.HTTPFacts{Status: 404}, diag.HTTPStatus, "http"
		}
	}
	agent := func(u diag.UnitFacts, word diag.Failure) func(answers) {
		return func(a answers) {
			a["gateway_node_stream/agent"] = func(f *diag.Fact) { f.Unit, f.Failure = &u, word }
		}
	}
	old := eof
	old.Ended, old.EndedMS, old.QuietMS = "", 0, 0
	reset := eof
	reset.Ended = diag.WSEndReset
	foreign := diag.WSFacts{FirstFrame: "ready", Ended: diag.WSEndClose, CloseCode: 1012, CloseReason: "restart"}
	silent := diag.WSFacts{FirstFrame: "ready", PingLost: true, QuietMS: 9000}
	ponged := diag.WSFacts{FirstFrame: "ready", PingMS: 3, QuietMS: 9000}
	late := diag.WSFacts{FirstFrame: "error", FrameCode: "node_stream_timeout", Ended: diag.WSEndClose, CloseCode: 4408}
	unready := map[string]string{"session.close_reason": "node_stream_timeout", "session.pty_ready_at": "",
		"session.closed_at": stamp(5 * time.Second)}
	for name, tc := range map[string]struct {
		world answers
		hop   diag.HopID
		owner string
		text  string
	}{
		"edge ends it": {cutWorld(eof, left), diag.HopBrowserTerminalWS, "edge and route profile",
			"so something between browser and gateway cut it"},
		"edge resets it": {cutWorld(reset, left), diag.HopBrowserTerminalWS, "edge and route profile",
			"was reset"},
		"edge closes it": {cutWorld(foreign, left), diag.HopBrowserTerminalWS, "edge and route profile",
			"closed with 1012 restart"},
		"by an old report": {cutWorld(old, left), diag.HopBrowserTerminalWS, "edge and route profile",
			"without a close frame during the session"},
		"closer not recorded": {
			cutWorld(eof, map[string]string{"session.close_reason": "browser_closed"},
				noField("session.closed_by", "session.close_code")), diag.HopBrowserTerminalWS, "edge and route profile",
			"has it closed by the browser",
		},
		"still open by the row": {cutWorld(eof, map[string]string{"session.closed_at": ""}), diag.HopBrowserTerminalWS,
			"terminal gateway, edge", "still open"},
		"row without reasons": {cutWorld(eof, nil, noField("session.close_reason", "session.closed_by")),
			diag.HopBrowserTerminalWS, "terminal gateway, edge", "does not report who"},
		"row not read": {cutWorld(eof, nil, unread), diag.HopBrowserTerminalWS, "terminal gateway, edge",
			"could not be read"},
		"a word of another kind": {cutWorld(eof, map[string]string{"session.close_reason": "evicted"}),
			diag.HopBrowserTerminalWS, "terminal gateway, edge", "row says evicted"},
		"gateway restarted": {
			cutWorld(eof, map[string]string{"session.close_reason": "gateway_restarted", "session.closed_by": "gateway"}),
			diag.HopBrowserTerminalWS, "terminal gateway", "gateway_restarted",
		},
		"front swallows": {cutWorld(silent, map[string]string{"session.closed_at": ""}), diag.HopBrowserTerminalWS,
			"edge and route profile", "no ping over it is answered"},
		"gateway frozen": {
			cutWorld(silent, map[string]string{"session.closed_at": ""}, func(a answers) {
				a["gateway_node_stream/gateway"] = failWith(diag.HTTPTimeout, "ws")
			}), diag.HopBrowserTerminalWS, "terminal gateway, edge", "does not answer the node either",
		},
		"gateway frozen, and an edge in front of it answers": {
			cutWorld(silent, map[string]string{"session.closed_at": ""}, func(a answers) {
				a["gateway_node_stream/gateway"] = httpFails(diag.HTTPStatus, 403, "")
			}), diag.HopBrowserTerminalWS, "terminal gateway, edge", "still open",
		},
		"front swallows, and nothing was asked after it": {
			cutWorld(silent, map[string]string{"session.closed_at": ""}, func(a answers) {
				a["gateway_node_stream/gateway"] = failWith(diag.Cancelled, "")
			}), diag.HopBrowserTerminalWS, "terminal gateway, edge", "still open",
		},
		"front swallows, row fails": {cutWorld(silent, nil, unread), diag.HopBrowserTerminalWS, "terminal gateway, edge",
			"could not be read"},
		"node's side breaks": {cutWorld(closed, node("1006", "its connection was reset")), diag.HopGatewayNodeStream,
			"node-facing terminal endpoint", "its connection was reset, as the gateway saw it"},
		"node's side is closed": {cutWorld(closed, node("1000", "bye")), diag.HopGatewayNodeStream,
			"node-facing terminal endpoint", "closed with 1000 bye"},
		"node's side, no details": {cutWorld(closed, nil, noField("session.closed_by", "session.close_code")),
			diag.HopGatewayNodeStream, "node-facing terminal endpoint", "kept running"},
		"agent stops": {cutWorld(closed, node("1001", "agent_stopping")), diag.HopGatewayNodeStream, "node runtime",
			"1001 agent_stopping"},
		"agent stops while it opens": {
			cutWorld(diag.WSFacts{FirstFrame: "error", FrameCode: "agent_stopping", Ended: diag.WSEndClose},
				map[string]string{"session.close_reason": "agent_stopping", "session.task_status": "failed"}),
			diag.HopGatewayNodeStream, "node runtime", "the agent was stopping, and ended the session: agent_stopping",
		},
		"older agent stops while it opens": {
			cutWorld(shellError("pty_failed", "wait for the shell: context canceled"),
				map[string]string{"session.close_reason": "pty_failed", "session.task_status": "failed"}),
			diag.HopGatewayNodeStream, "node runtime", "the agent was stopping, and ended the session: pty_failed wait",
		},
		"agent is another": {
			cutWorld(closed, node("1006", ""), agent(diag.UnitFacts{Active: "active", Sub: "running", PID: 77}, diag.OK)),
			diag.HopGatewayNodeStream, "node runtime", "process 42 was replaced by 77",
		},
		"agent is gone": {
			cutWorld(closed, node("1006", ""), agent(diag.UnitFacts{Active: "failed", Sub: "failed"}, diag.UnitFailed)),
			diag.HopGatewayNodeStream, "node runtime", "failed/failed",
		},
		"agent starts again": {
			cutWorld(closed, node("1006", ""),
				agent(diag.UnitFacts{Active: "activating", Sub: "auto-restart"}, diag.UnitInactive)), diag.HopGatewayNodeStream,
			"node runtime", "auto-restart",
		},
		"node's side swallows": {
			cutWorld(ponged, map[string]string{"session.close_reason": "browser_closed", "session.node_answers": "no"}),
			diag.HopGatewayNodeStream, "node-facing terminal endpoint", "only the node does not answer",
		},
		"ready is lost": {cutWorld(late, unready), diag.HopGatewayNodeStream, "node-facing terminal endpoint",
			"lost on the path"},
	} {
		t.Run(name, func(t *testing.T) {
			r := walkWith(t, tc.world)
			v := r.Verdict
			if v.Blame == nil || v.Blame.Hop != tc.hop || v.Blame.Signal != diag.SigStreamCut || v.Owner != tc.owner ||
				v.Reason != diag.ReasonTerminalStreamCut || !strings.Contains(v.Blame.Text, tc.text) || len(v.OtherFindings) > 0 {
				t.Errorf("%+v, owner %s, reason %s, others %+v\n%s", v.Blame, v.Owner, v.Reason, v.OtherFindings, describe(r))
			}
			if h := hopOf(r, diag.HopTerminalStartup); h.Status != diag.StatusInconclusive {
				t.Errorf("the shell is %s: %s", h.Status, h.Text)
			}
			if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
				t.Error(err)
			}
		})
	}
}

// shellError is a session that an agent ended with an error frame.
func shellError(code, message string) diag.WSFacts {
	return diag.WSFacts{FirstFrame: "error", FrameCode: code, FrameMessage: message, Ended: diag.WSEndClose,
		CloseCode: 4502, CloseReason: code}
}

// TestNoShellIsBlamedForItsAgentsRestart: a restart of the agent kills what it runs, so its report about user or shell
// is evidence only if the same process of the agent survived it.
func TestNoShellIsBlamedForItsAgentsRestart(t *testing.T) {
	exit := 143
	for name, ws := range map[string]diag.WSFacts{
		"a look-up was killed":   shellError("pty_failed", `look up user "tenant01": getent ended with status 143: `),
		"systemd-run was killed": shellError("pty_exited", "the shell ended at once with code 143"),
		"the shell was killed":   {FirstFrame: "ready", ExitCode: &exit, Ended: diag.WSEndClose, CloseReason: "exit"},
	} {
		for _, pid := range []int{42, 77} {
			t.Run(fmt.Sprint(name, " by process ", pid), func(t *testing.T) {
				w := cutWorld(ws, map[string]string{"session.close_reason": ws.CloseReason, "session.task_status": "failed"})
				w["workload_terminal_startup_failure/agent_after"] = func(f *diag.Fact) {
					f.Unit, f.Failure = &diag.UnitFacts{Active: "active", Sub: "running", PID: pid}, diag.OK
				}
				r := walkWith(t, w)
				h := hopOf(r, diag.HopTerminalStartup)
				if lived := pid == 42; lived != (h.Status == diag.StatusFail) || lived != (r.Verdict.Blame != nil) {
					t.Errorf("%s: %s\n%s", h.Status, h.Because, describe(r))
				} else if !lived && (h.Status != diag.StatusInconclusive || !strings.Contains(h.Because, "replaced by 77") ||
					!strings.Contains(h.Because, "walk again")) {
					t.Errorf("%s: %s", h.Status, h.Because)
				}
				if _, err := verdict.Replay(hops.BuiltIn(), r); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestUpgradeAnswerIsCut: a gateway that already has the browser of this walk did not refuse it.
func TestUpgradeAnswerIsCut(t *testing.T) {
	r := walkWith(t, answers{"browser_terminal_ws/session": func(f *diag.Fact) {
		f.Failure, f.Phase, f.PTY, f.WS = diag.WSUpgradeRejected, "ws", nil, &diag.WSFacts{Status: 409}
		f.HTTP = &diag.HTTPFacts{Status: 409, ErrorCode: "session_attached"}
	}})
	if v := r.Verdict; v.Blame == nil || v.Blame.Signal != diag.SigStreamCut || v.Owner != "edge and route profile" {
		t.Errorf("%+v, owner %s", v.Blame, v.Owner)
	}
}

// TestShellsOwnEnd: if the stream was not cut, the shell is blamed, with its last lines.
func TestShellsOwnEnd(t *testing.T) {
	code := 137
	exit := diag.WSFacts{FirstFrame: "ready", ExitCode: &code, Ended: diag.WSEndClose, CloseCode: 1000,
		CloseReason: "exit"}
	ponged := diag.WSFacts{FirstFrame: "ready", PingMS: 3, QuietMS: 9000}
	late := diag.WSFacts{FirstFrame: "error", FrameCode: "node_stream_timeout", Ended: diag.WSEndClose, CloseCode: 4408}
	for name, tc := range map[string]struct {
		ws   diag.WSFacts
		row  map[string]string
		text string
	}{
		"exits": {exit, map[string]string{"session.close_reason": "exit"}, "ended by itself with code 137"},
		"exits, untold": {diag.WSFacts{FirstFrame: "ready", Ended: diag.WSEndEOF, CloseCode: 1006},
			map[string]string{"session.close_reason": "exit", "session.close_detail": "the shell ended with code 3"},
			"the shell ended with code 3"},
		"is silent": {
			ponged, map[string]string{"session.close_reason": "browser_closed", "session.node_answers": "yes"},
			"computes nothing",
		},
		"is silent, older row": {ponged, map[string]string{"session.close_reason": "browser_closed"}, "computes nothing"},
		"was as late as allowed": {late,
			map[string]string{"session.close_reason": "node_stream_timeout", "session.pty_ready_at": "",
				"session.closed_at": stamp(5 * time.Second), "session.task_completed_at": stamp(5*time.Second + time.Millisecond)},
			"did not start in time"},
	} {
		t.Run(name, func(t *testing.T) {
			w := cutWorld(tc.ws, tc.row)
			before := w["browser_terminal_ws/session"]
			w["browser_terminal_ws/session"] = func(f *diag.Fact) {
				before(f)
				f.PTY = &diag.PTYFacts{LastLines: "fork: Resource temporarily unavailable"}
			}
			r := walkWith(t, w)
			v := r.Verdict
			if v.Blame == nil || v.Blame.Hop != diag.HopTerminalStartup || v.Blame.Signal != diag.SigPTYFailed ||
				!strings.Contains(v.Blame.Text, tc.text) {
				t.Errorf("%+v\n%s", v.Blame, describe(r))
			}
			if !strings.Contains(name, "late") &&
				!strings.Contains(v.Blame.Text, "its last output: fork: Resource temporarily unavailable") {
				t.Errorf("what the shell said is not in %q", v.Blame.Text)
			}
		})
	}
}

// TestCutIsNeverAHealthyShell: with any combination of ends, a walk blames at most one hop, does not blame the shell in
// addition to a cut, and does not pass.
func TestCutIsNeverAHealthyShell(t *testing.T) {
	n := 0
	for _, first := range []string{"", "ready", "data"} {
		for _, end := range []diag.WSEnd{"", diag.WSEndEOF, diag.WSEndReset, diag.WSEndError, diag.WSEndClose} {
			for _, reason := range []string{"", "browser_closed", "node_stream_closed", "gateway_shutdown", "exit", "evicted"} {
				for _, ping := range []int{0, 1, 2} {
					for _, answers := range []string{"", "yes", "no"} {
						if n++; testing.Short() && n%7 != 0 { // the race detector's run: the code is the same
							continue
						}
						ws := diag.WSFacts{FirstFrame: first, Ended: end, PingLost: ping == 1}
						if ping == 2 {
							ws.PingMS = 2
						}
						if end == diag.WSEndClose {
							ws.CloseCode = 4000
						}
						r := walkWith(t, cutWorld(ws, map[string]string{"session.close_reason": reason, "session.node_answers": answers}))
						v := r.Verdict
						if v.Blame == nil || len(v.OtherFindings) > 0 ||
							(v.Blame.Signal == diag.SigPTYFailed) != (hopOf(r, diag.HopTerminalStartup).Status == diag.StatusFail) {
							t.Errorf("%s: %+v, others %+v", fmt.Sprint(first, " ", end, " ", reason, " ", ping, " ", answers), v.Blame,
								v.OtherFindings)
						}
					}
				}
			}
		}
	}
	t.Logf("%d sessions", n)
}
