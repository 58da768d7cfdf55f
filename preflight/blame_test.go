package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

type answers = map[string]func(*diag.Fact)

// silentAgent returns what the platform sees of an agent that no longer talks to it.
func silentAgent() answers {
	return answers{
		"node_heartbeat/read_model": setField("node.last_seen_at", "2026-01-02T11:00:00Z"),
		"node_task_roundtrip/task": func(f *diag.Fact) {
			f.HTTP.Fields = map[string]string{"task.status": "queued"}
			f.Failure = diag.HTTPTimeout
		},
		"browser_terminal_ws/session": streamTimeout,
		"terminal_open_task/session": func(f *diag.Fact) {
			f.HTTP.Fields = map[string]string{"session.task_status": "queued",
				"session.browser_connected_at": "2026-01-02T12:00:00Z"}
		},
	}
}

func streamTimeout(f *diag.Fact) {
	f.Failure, f.Phase, f.PTY = diag.WSClosed, "ws", nil
	f.WS = &diag.WSFacts{Upgraded: true, Status: 101, FirstFrame: "error", FrameCode: "node_stream_timeout",
		FirstFrameMS: 5000}
}

func silence(f *diag.Fact) {
	f.Failure, f.Phase, f.PTY = diag.WSSilent, "ws", nil
	f.WS = &diag.WSFacts{Upgraded: true, Status: 101, PingMS: 2}
}

func noStream(f *diag.Fact) {
	f.HTTP.Fields = map[string]string{
		"session.task_status": "failed", "session.task_claimed_at": "2026-01-02T12:00:00Z",
		"session.task_queued_at": "2026-01-02T12:00:00Z", "session.browser_connected_at": "2026-01-02T12:00:00Z",
		"session.close_reason": "node_stream_timeout",
	}
}

func with(base answers, more answers) answers {
	out := answers{}
	for k, v := range base {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func unitDown(f *diag.Fact) {
	f.Failure, f.Unit = diag.UnitInactive,
		&diag.UnitFacts{Load: "loaded", Active: "inactive", Sub: "dead", Result: "success"}
}

// TestBlame has facts and the verdict that they must give, one row for each kind of fault.
func TestBlame(t *testing.T) {
	unreachable := with(silentAgent(), answers{
		"node_runtime_api_reachability/reach":                failWith(diag.TCPTimeout, "tcp"),
		"node_runtime_api_reachability/reach~bare":           failWith(diag.TCPTimeout, "tcp"),
		"node_runtime_api_reachability/reach~other-listener": func(f *diag.Fact) { f.Failure, f.HTTP = "", nil },
	})
	for _, tc := range []struct {
		name       string
		answers    answers
		first      diag.HopID
		blame      diag.HopID
		signal     diag.Signal
		confidence diag.Confidence
		symptoms   []diag.HopID
		others     []diag.HopID
		user       diag.UserState
	}{
		{
			name:    "agent stopped",
			answers: with(silentAgent(), answers{"node_readiness/process": unitDown}),
			first:   diag.HopNodeHeartbeat, blame: diag.HopNodeReadiness, signal: diag.SigProcessDown, confidence: diag.Observed,
			symptoms: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS,
				diag.HopTerminalOpenTask, diag.HopGatewayNodeStream, diag.HopTerminalStartup},
			user: diag.UserTemporary,
		}, {
			name: "silent for no visible reason: what follows from it is a symptom, too", answers: silentAgent(),
			first: diag.HopNodeHeartbeat, blame: diag.HopNodeHeartbeat, signal: diag.SigHeartbeatStale, confidence: diag.Likely,
			symptoms: []diag.HopID{diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS, diag.HopTerminalOpenTask,
				diag.HopGatewayNodeStream, diag.HopTerminalStartup},
		}, {
			name: "api egress blocked", answers: unreachable,
			first: diag.HopNodeHeartbeat, blame: diag.HopNodeRuntimeAPI, signal: diag.SigAPIUnreachable, confidence: diag.Proven,
			symptoms: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS,
				diag.HopTerminalOpenTask, diag.HopGatewayNodeStream, diag.HopTerminalStartup},
			user: diag.UserTemporary,
		}, {
			name: "one broken resolver is one fault",
			answers: with(silentAgent(), answers{
				"node_runtime_api_reachability/reach": failWith(diag.DNSTimeout, "dns"),
				"node_terminal_reachability/stream":   failWith(diag.DNSTimeout, "dns"),
			}),
			first: diag.HopNodeHeartbeat, blame: diag.HopNodeRuntimeAPI, signal: diag.SigAPIUnreachable, confidence: diag.Proven,
			symptoms: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip, diag.HopBrowserTerminalWS,
				diag.HopTerminalOpenTask, diag.HopNodeTerminalReachability, diag.HopGatewayNodeStream, diag.HopTerminalStartup},
			user: diag.UserTemporary,
		}, {
			name: "node stream blocked",
			answers: answers{
				"node_terminal_reachability/stream": func(f *diag.Fact) {
					failWith(diag.TCPTimeout, "tcp")(f)
					f.TCP.Remote = "192.0.2.10:18443"
				},
				"browser_terminal_ws/session": streamTimeout, "terminal_open_task/session": noStream,
				"node_terminal_reachability/stream~bare":           failWith(diag.TCPTimeout, "tcp"),
				"node_terminal_reachability/stream~other-listener": func(f *diag.Fact) { f.Failure, f.HTTP = "", nil },
			},
			first: diag.HopBrowserTerminalWS, blame: diag.HopNodeTerminalReachability, signal: diag.SigNodeStreamTimeout,
			confidence: diag.Proven, symptoms: []diag.HopID{diag.HopBrowserTerminalWS, diag.HopGatewayNodeStream,
				diag.HopTerminalStartup},
		}, {
			name: "success without a stream",
			answers: answers{"browser_terminal_ws/session": streamTimeout, "terminal_open_task/session": func(f *diag.Fact) {
				noStream(f)
				f.HTTP.Fields["session.task_status"] = "completed"
			}},
			first: diag.HopBrowserTerminalWS, blame: diag.HopGatewayNodeStream, signal: diag.SigOpenWithoutStream,
			confidence: diag.Likely, symptoms: []diag.HopID{diag.HopBrowserTerminalWS, diag.HopTerminalStartup},
		}, {
			name: "user missing",
			answers: answers{
				"workload_terminal_startup_failure/user": func(f *diag.Fact) {
					f.Failure, f.User = diag.UserMissing, nil
				},
				"workload_terminal_startup_failure/user~host-view": func(f *diag.Fact) {
					f.Failure, f.User = diag.UserMissing, nil
				},
				"browser_terminal_ws/session": func(f *diag.Fact) {
					f.Failure, f.Phase, f.PTY = diag.UserMissing, "pty", nil
					f.WS = &diag.WSFacts{Upgraded: true, FirstFrame: "error", FrameCode: "user_missing"}
				},
			},
			first: diag.HopTerminalStartup, blame: diag.HopTerminalStartup, signal: diag.SigPTYFailed, confidence: diag.Proven,
		}, {
			name: "redis gone",
			answers: answers{"browser_terminal_ws/session": func(f *diag.Fact) {
				f.Failure, f.Phase, f.PTY = diag.WSUpgradeRejected, "ws", nil
				f.WS, f.HTTP = &diag.WSFacts{Status: 503}, &diag.HTTPFacts{Status: 503, ErrorCode: "session_store_unavailable"}
			}},
			first: diag.HopBrowserTerminalWS, blame: diag.HopBrowserTerminalWS, signal: diag.SigUpgradeFailed,
			confidence: diag.Observed,
		}, {
			name: "connecting for ever", answers: answers{"browser_terminal_ws/session": silence},
			first: diag.HopBrowserTerminalWS, blame: diag.HopBrowserTerminalWS, signal: diag.SigConnectingStuck,
		}, {
			name: "connecting for ever, though the agent said what is wrong",
			answers: answers{"browser_terminal_ws/session": silence, "terminal_open_task/session": func(f *diag.Fact) {
				delete(f.HTTP.Fields, "session.pty_ready_at")
				f.HTTP.Fields["session.task_status"], f.HTTP.Fields["session.task_error_code"] = "failed", "pty_failed"
			}},
			first: diag.HopBrowserTerminalWS, blame: diag.HopBrowserTerminalWS, signal: diag.SigConnectingStuck,
			others: []diag.HopID{diag.HopTerminalStartup},
		}, {
			name: "connecting for ever over a shell that does not start",
			answers: answers{"browser_terminal_ws/session": silence, "terminal_open_task/session": func(f *diag.Fact) {
				delete(f.HTTP.Fields, "session.pty_ready_at")
				f.HTTP.Fields["session.task_status"], f.Failure, f.Phase = "dispatched", diag.HTTPTimeout, "poll"
			}},
			first: diag.HopBrowserTerminalWS, blame: diag.HopTerminalStartup, signal: diag.SigPTYFailed,
			symptoms: []diag.HopID{diag.HopBrowserTerminalWS},
		}, {
			name:    "connecting for ever, and no stream",
			answers: answers{"browser_terminal_ws/session": silence, "terminal_open_task/session": noStream},
			first:   diag.HopBrowserTerminalWS, blame: diag.HopGatewayNodeStream, signal: diag.SigOpenWithoutStream,
			symptoms: []diag.HopID{diag.HopBrowserTerminalWS, diag.HopTerminalStartup},
		}, {
			name:    "a shell that is ready after the gateway gave up",
			answers: answers{"browser_terminal_ws/session": streamTimeout}, first: diag.HopBrowserTerminalWS,
			blame: diag.HopTerminalStartup, signal: diag.SigPTYFailed, symptoms: []diag.HopID{diag.HopBrowserTerminalWS},
		}, {
			name: "terminal.open is never answered, and all else is",
			answers: answers{"terminal_open_task/session": func(f *diag.Fact) {
				f.HTTP.Fields["session.task_status"], f.Failure, f.Phase = "dispatched", diag.HTTPTimeout, "poll"
			}},
			first: diag.HopTerminalOpenTask, blame: diag.HopTerminalOpenTask, signal: diag.SigResultPostFailed,
		}, {
			name: "another listener than the profile's lets the node's stream in",
			answers: answers{"node_terminal_reachability/stream": func(f *diag.Fact) {
				f.Target = "https://term.elsewhere.test:18443/internal/v1/terminal/preflight-nobody"
			}},
			first: diag.HopNodeTerminalReachability, blame: diag.HopNodeTerminalReachability,
			signal: diag.SigTerminalProfileDrift,
		}, {
			name: "three faults at once",
			answers: with(silentAgent(), answers{
				"node_readiness/disk":           func(f *diag.Fact) { f.Failure, f.Errno = diag.DiskFull, "ENOSPC" },
				"node_readiness/process":        unitDown,
				"terminal_public_route/healthz": answerWith(diag.HTTPStatus, "http", 404, nil),
				"browser_terminal_ws/session":   refusedUpgrade(404),
			}),
			first: diag.HopNodeHeartbeat, blame: diag.HopNodeReadiness, signal: diag.SigDiskFull, confidence: diag.Proven,
			symptoms: []diag.HopID{diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip},
			others:   []diag.HopID{diag.HopNodeReadiness, diag.HopTerminalPublicRoute},
		}, {
			name: "a login that fails blames no agent",
			answers: answers{"node_ops_access/ssh": func(f *diag.Fact) {
				f.Failure, f.Phase, f.SSH = diag.TCPRefused, "tcp", nil
			}},
			first: diag.HopNodeOpsAccess, blame: diag.HopNodeOpsAccess, signal: diag.SigOpsSSHFailed, confidence: diag.Likely,
			user: diag.UserNormal,
		}, {
			name:    "the operator's own path",
			answers: answers{"control_plane_access/healthz": failWith(diag.TCPTimeout, "tcp")},
			first:   diag.HopControlPlaneAccess, blame: diag.HopControlPlaneAccess, signal: diag.SigControlPlaneUnreachable,
		}, {
			name: "nobody reaches the control plane: it is named, not the node",
			answers: answers{
				"control_plane_access/healthz":                       failWith(diag.TCPTimeout, "tcp"),
				"node_runtime_api_reachability/reach":                failWith(diag.TCPTimeout, "tcp"),
				"node_runtime_api_reachability/reach~from-operator":  failWith(diag.TCPTimeout, "tcp"),
				"node_runtime_api_reachability/reach~bare":           failWith(diag.TCPTimeout, "tcp"),
				"node_runtime_api_reachability/reach~other-listener": failWith(diag.TCPTimeout, "tcp"),
			},
			first: diag.HopControlPlaneAccess, blame: diag.HopControlPlaneAccess, signal: diag.SigControlPlaneUnreachable,
			symptoms: []diag.HopID{diag.HopNodeRuntimeAPI},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := walkWith(t, tc.answers)
			v := r.Verdict
			if v.Outcome != diag.OutcomeFail || v.Blame == nil {
				t.Fatalf("outcome %s\n%s", v.Outcome, describe(r))
			}
			if v.FirstFailedHop != tc.first || v.Blame.Hop != tc.blame || v.Blame.Signal != tc.signal {
				t.Errorf("first %s, blame %s %s; want %s, %s %s\n%s", v.FirstFailedHop, v.Blame.Hop, v.Blame.Signal, tc.first,
					tc.blame, tc.signal, describe(r))
			}
			if tc.confidence != "" && v.Confidence != tc.confidence {
				t.Errorf("confidence %s, want %s (proof %+v)", v.Confidence, tc.confidence, v.Proof)
			}
			if tc.symptoms != nil && !slices.Equal(v.Symptoms, tc.symptoms) {
				t.Errorf("symptoms %v, want %v\n%s", v.Symptoms, tc.symptoms, describe(r))
			}
			var others []diag.HopID
			for _, o := range v.OtherFindings {
				others = append(others, o.Hop)
			}
			for _, h := range r.Hops {
				of := func(o diag.Blame) bool { return slices.Contains(o.Symptoms, h.ID) }
				if h.Status == diag.StatusFail && h.ID != v.Blame.Hop && !slices.Contains(others, h.ID) &&
					!slices.Contains(v.Symptoms, h.ID) &&
					!slices.ContainsFunc(v.OtherFindings, of) {
					t.Errorf("%s fails, and is neither a finding nor a symptom\n%s", h.ID, describe(r))
				}
			}
			if !slices.Equal(others, tc.others) {
				t.Errorf("other findings %v, want %v\n%s", others, tc.others, describe(r))
			}
			if tc.user != "" && v.UserState != tc.user {
				t.Errorf("user state %s, want %s", v.UserState, tc.user)
			}
			if v.Owner == "" || len(v.Recovery) == 0 || v.Reason == "" || (v.Severity == "" && v.Reason != diag.ReasonNone) {
				t.Errorf("owner %q, recovery %v, reason %q, severity %q", v.Owner, v.Recovery, v.Reason, v.Severity)
			}
			replaysToItself(t, r)
		})
	}
}

// TestWhoKeepsSilent: a verdict blames the gateway for a silent session only if a ping shows that the browser's side
// works.
func TestWhoKeepsSilent(t *testing.T) {
	for _, ponged := range []bool{true, false} {
		r := walkWith(t, answers{"browser_terminal_ws/session": func(f *diag.Fact) {
			silence(f)
			if !ponged {
				f.WS.PingMS = 0
			}
		}})
		b := r.Verdict.Blame
		if b == nil || b.Signal != diag.SigConnectingStuck || strings.Contains(b.Text, "did not forward it") != ponged {
			t.Errorf("ping answered: %t, and the blame is %+v", ponged, b)
		}
	}
}

// replaysToItself marshals a report, reads it again, judges it again and compares byte for byte.
func replaysToItself(t *testing.T, r *diag.Report) {
	t.Helper()
	first, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(first, []byte("canary")) {
		t.Errorf("a secret reached the report: %s", first)
	}
	var read diag.Report
	if err := json.Unmarshal(first, &read); err != nil {
		t.Fatal(err)
	}
	again, err := verdict.Replay(hops.BuiltIn(), &read)
	if err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("the replay differs:\n%s\n%s", first, second)
	}
}

func TestAProofThatDoesNotHoldIsRefused(t *testing.T) {
	r := walkWith(t, answers{
		"node_readiness/disk": func(f *diag.Fact) { f.Failure, f.Errno = diag.DiskFull, "ENOSPC" },
	})
	if r.Verdict.Proof == nil {
		t.Fatalf("no proof\n%s", describe(r))
	}
	for name, spoil := range map[string]func(p *diag.Proof){
		"missing fact": func(p *diag.Proof) { p.Passing = "nobody" },
		"other input":  func(p *diag.Proof) { p.Changed = "resolver" },
		"not failing":  func(p *diag.Proof) { p.Failing, p.Passing = p.Passing, p.Failing },
	} {
		proof := *r.Verdict.Proof
		spoil(&proof)
		bad := *r
		bad.Verdict.Proof = &proof
		if _, err := verdict.Replay(hops.BuiltIn(), &bad); err == nil || !strings.Contains(err.Error(), "proof") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReplay: a report that can be read and judged once is judged the same every time after, and never panics.
func FuzzReplay(f *testing.F) {
	seed := walkSeed(f)
	f.Add(seed)
	f.Add([]byte(`{"apiVersion":"gpuaasctl/v1","kind":"PreflightReport"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r diag.Report
		if json.Unmarshal(data, &r) != nil {
			return
		}
		r.Verdict = diag.Verdict{} // another test covers a forged proof
		once, err := verdict.Replay(hops.BuiltIn(), &r)
		if err != nil {
			return
		}
		a, err := json.Marshal(once)
		if err != nil {
			return
		}
		var back diag.Report
		if err := json.Unmarshal(a, &back); err != nil {
			t.Fatalf("a judged report cannot be read: %v", err)
		}
		twice, err := verdict.Replay(hops.BuiltIn(), &back)
		if err != nil {
			t.Fatalf("a judged report is refused: %v", err)
		}
		b, err := json.Marshal(twice)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Fatalf("two verdicts on the same facts:\n%s\n%s", a, b)
		}
	})
}

func walkSeed(f *testing.F) []byte {
	e := testEnv()
	v := map[string]hop.Vantage{
		hop.Operator: &scripted{name: hop.Operator, answers: silentAgent()},
		hop.Node:     &scripted{name: hop.Node, answers: answers{"node_readiness/process": unitDown}},
	}
	plan := testPlan(e)
	facts, ended := walk.Walk(context.Background(), e, plan, v, nil)
	r := &diag.Report{Head: diag.NewHead(diag.KindPreflight), Subject: e.Subject, Plan: plan, Facts: facts,
		Run: diag.Run{EndedBy: ended}}
	verdict.Judge(hops.BuiltIn(), r)
	b, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	return b
}
