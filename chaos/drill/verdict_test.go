package drill_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// ending is a run that ends in a verdict. Its whole course is in testdata.
type ending struct {
	name string
	word drill.Word
	text string // part of the verdict's
	plan func() chaos.Plan
	in   func(w *world)
}

// of returns a plan with a change.
func of(p chaos.Plan, change func(p *chaos.Plan)) func() chaos.Plan {
	return func() chaos.Plan { change(&p); return p }
}

// endings are caused by the chain, the probes and the platform. The default plan is that of n1.
func endings() []ending {
	return []ending{
		{"pass", drill.Pass, "seen within 1 s of 10 s; green again within 1 s of 20 s; nothing is left", nil, nil},
		{"pass-two-machines", drill.Pass, "", func() chaos.Plan { return planOf("n1", "n2") }, nil},
		{"pass-none", drill.Pass, "nothing was blamed", func() chaos.Plan { return quiet("n1") },
			func(w *world) { w.never = true }},
		{"pass-seen-later", drill.Pass, "seen between 3.6 s and 4.9 s of 10 s", nil,
			func(w *world) { w.blind = 4 * time.Second }},
		{"pass-decided", drill.Pass, "",
			of(planOf("n1"), func(p *chaos.Plan) { p.Decision = &chaos.Decision{Path: "/x", Reason: "y"} }), nil},
		{"none-and-something-is-blamed", drill.WrongHop, "and nothing should be", func() chaos.Plan { return quiet("n1") },
			nil},
		{"warns", drill.Pass, "gpu_health gpu_degraded (warn), seen", of(planOf("n1"), wantsWarning),
			func(w *world) { w.never = true; w.bend = warnsWhile(w.anyBroken) }},
		{"warns-of-something-else", drill.NotDetected, "blames nothing (pass), want gpu_health gpu_degraded (warn)",
			of(planOf("n1"), wantsWarning), func(w *world) { w.never = true }},
		{"fails-where-it-should-warn", drill.WrongHop, "want gpu_health gpu_degraded (warn)", of(planOf("n1"), wantsWarning),
			nil},
		{"still-warns", drill.NoRecovery, "the chain is not green: gpu_health gpu_degraded (warn)",
			of(planOf("n1"), wantsWarning), func(w *world) {
				w.never, w.bend = true, warnsWhile(func() bool { return w.anyBroken() || w.anyMended() })
			}},
		{"late", drill.Late, "of 10 s", nil, func(w *world) { w.blind = 11 * time.Second }},
		{"late-straddling", drill.Late, "seen between 8.8 s and 10.1 s of 10 s", nil,
			func(w *world) { w.blind = 9500 * time.Millisecond }},
		{"collateral", drill.Collateral, "control_plane_access", nil, func(w *world) {
			w.symptom = diag.HopControlPlaneAccess
		}},
		{"collateral-id-lost", drill.Collateral, "of gateway nothing is written down", nil,
			func(w *world) { w.muted = true }},
		{"collateral-id-lost-by-agent", drill.Collateral,
			`the agent wrote of task-2 of walk 2 under the id "other", and the walk's is corr-2`, nil, func(w *world) {
				w.bend = func(r *diag.Report) {
					row := map[string]string{"task.id": "task-" + strings.TrimPrefix(r.Run.ID, "w")}
					said := []diag.RecordEntry{{TaskID: "task-1", CorrelationID: "corr-1"}, {TaskID: "task-2", CorrelationID: "other"},
						{TaskID: "earlier", CorrelationID: "x"}}
					r.Facts = append(r.Facts, diag.Fact{HTTP: &diag.HTTPFacts{Fields: row}},
						diag.Fact{Record: &diag.RecordFacts{Entries: said}})
				}
			}},
		{"wrong-hop", drill.WrongHop, "the chain blames node_heartbeat", nil, func(w *world) {
			w.blames["block"] = diag.Blame{Hop: diag.HopNodeHeartbeat, Signal: diag.SigHeartbeatStale}
		}},
		{"wrong-failure-word", drill.WrongHop,
			"(tcp_timeout), want node_runtime_api_reachability node_agent_api_unreachable (tcp_refused)",
			of(planOf("n1"), func(p *chaos.Plan) {
				p.Scenario.Expect.Blame.Failure = []diag.Failure{"tcp_refused"}
			}), nil},
		{"collateral-in-passing", drill.Collateral,
			"control_plane_access failed in walk 2, and must stay green: it did not answer", nil, func(w *world) {
				w.blind, w.flicker = 2*time.Second, diag.HopControlPlaneAccess
			}},
		{"wrong-hop-right-signal", drill.WrongHop, "the chain blames node_readiness node_agent_api_unreachable", nil,
			func(w *world) {
				w.blames["block"] = diag.Blame{Hop: diag.HopNodeReadiness, Signal: diag.SigAPIUnreachable}
			}},
		{"wrong-first-hop", drill.WrongHop, "failed first, want node_ops_access", of(planOf("n1"), func(p *chaos.Plan) {
			p.Scenario.Expect.FirstFailedHop = []diag.HopID{diag.HopNodeOpsAccess}
		}), nil},
		{"wrong-reason", drill.NotDetected, "gives the reason agent_down, want control_plane_unreachable",
			of(planOf("n1"), func(p *chaos.Plan) {
				p.Scenario.Expect.Reason = []diag.ReasonCode{diag.ReasonControlPlaneUnreachable}
			}), func(w *world) { w.bend = func(r *diag.Report) { r.Verdict.Reason = diag.ReasonAgentDown } }},
		{"platform-knows-nothing", drill.NotDetected,
			"finds that gateway_node_stream failed, and the platform's read model does not say so", nil, func(w *world) {
				w.symptom = diag.HopGatewayNodeStream
				w.bend = said("exit")
			}},
		{"platform-has-not-said-yet", drill.Pass, "", nil, func(w *world) {
			w.symptom = diag.HopGatewayNodeStream
			w.bend = said("")
		}},
		{"platform-knows", drill.Pass, "", nil, func(w *world) {
			w.symptom = diag.HopGatewayNodeStream
			w.bend = said("node_stream_timeout")
		}},
		{"spinner", drill.Collateral, "the user was left without a word: terminal: nothing for 8000 ms", nil, func(w *world) {
			w.symptom = diag.HopBrowserTerminalWS
			w.bend = func(r *diag.Report) {
				r.Facts[0].WS, r.Facts[0].Failure, r.Facts[0].DurationMS = &diag.WSFacts{Upgraded: true}, diag.WSSilent, 8000
			}
		}},
		{"user-not-asked", drill.Infra, "not measured: what the user got at browser_terminal_ws", nil, func(w *world) {
			w.symptom = diag.HopBrowserTerminalWS
			w.bend = func(r *diag.Report) { r.Facts = nil }
		}},
		{"hop-left-out", drill.Infra, "not measured: control_plane_access, which must stay green", nil, func(w *world) {
			w.bend = func(r *diag.Report) {
				r.Hops[diag.HopControlPlaneAccess.Rank()].Status = diag.StatusSkipped
			}
		}},
		{"somebody-has-to-act-before", drill.AbortedGuard, "pass, and security_action_required (cloned_identity_detected)",
			nil, func(w *world) { w.bend = cloned }},
		{"somebody-has-to-act-after", drill.NoRecovery, "pass, and security_action_required (cloned_identity_detected)", nil,
			func(w *world) {
				w.bend = func(r *diag.Report) {
					if w.anyMended() {
						cloned(r)
					}
				}
			}},
		{"not-detected", drill.NotDetected, "the chain blames nothing (pass)", nil, func(w *world) { w.never = true }},
		{"not-detected-other", drill.NotDetected, "does not find node_readiness disk_full as well",
			func() chaos.Plan { return planOf("n1", "n2") }, func(w *world) {
				w.blames["disk"] = w.blames["block"]
			}},
		{"no-op-injector", drill.NotInjected, "sees: exit code 1", nil, func(w *world) { w.boxes["n1"].noop = true }},
		{"always-passing-probe", drill.AbortedGuard, "shows it before anything is touched", nil,
			func(w *world) { w.always = true }},
		{"lame-control", drill.AbortedGuard, "what must still work does not, before", nil, func(w *world) { w.lame = true }},
		{"control-fails", drill.NotInjected, "works: exit code 1", nil, func(w *world) { w.control = true }},
		{"look-cannot-be-made", drill.Infra, "no such program", nil, func(w *world) {
			w.observe = func(e drill.Event, _ *drill.Story) {
				if e.Kind == drill.Arming {
					w.cutOff("sees")
				}
			}
		}},
		{"look-never-could", drill.Infra, "not seen", nil, func(w *world) { w.cut["works"] = true }},
		{"baseline-red", drill.AbortedGuard, "not green before anything is touched: node_heartbeat", nil,
			func(w *world) { w.sick = true }},
		{"no-report", drill.AbortedGuard, "inconclusive, ended by internal_error", nil, func(w *world) { w.nobody = true }},
		{"stop-if", drill.AbortedGuard, "app_runtime_liveness failed, which ends the drill",
			of(planOf("n1"), func(p *chaos.Plan) {
				p.Scenario.Guards.StopIf = []diag.HopID{diag.HopAppRuntimeLiveness}
			}), func(w *world) { w.symptom = diag.HopAppRuntimeLiveness }},
		{"ttl-too-short", drill.AbortedGuard, "the ttl of 12s is nearly over", of(planOf("n1"), func(p *chaos.Plan) {
			p.Budgets.TTL, p.Targets[0].Drill.TTL, p.Budgets.Lease, p.Targets[0].Drill.Lease = seconds(12), 12_000, seconds(12),
				12_000
		}), func(w *world) { w.never = true }},
		{"no-recovery", drill.NoRecovery, "the chain is not green: node_runtime_api_reachability", nil,
			func(w *world) { w.sore = time.Hour }},
		{"recovered-late", drill.NoRecovery, "green between", nil, func(w *world) { w.sore = 21 * time.Second }},
		{"repair-not-proved", drill.NoRecovery, "repaired: exit code 1", nil, func(w *world) { w.unproof = true }},
		{"proof-always-holds", drill.AbortedGuard, "so it would prove nothing", nil, func(w *world) { w.proves = true }},
		{"decision-refused", drill.NoRecovery, "the platform did not take the decision: 409",
			of(planOf("n1"), func(p *chaos.Plan) {
				p.Decision = &chaos.Decision{Path: "/x", Reason: "y"}
			}), func(w *world) { w.refusesDecision = errors.New("409") }},
		{"decision-hangs", drill.NoRecovery, "deadline exceeded", of(planOf("n1"), func(p *chaos.Plan) {
			p.Decision = &chaos.Decision{Path: "/x", Reason: "y"}
		}), func(w *world) { w.hangs = true }},
		{"plan-refused", drill.AbortedGuard, "n1: no_consent: no", of(planOf("n1"), func(p *chaos.Plan) {
			p.Refused = []chaos.Refusal{{Machine: "n1", Refusal: step.Refusal{Code: step.RefusedConsent, Text: "no"}}}
		}), nil},
		{"plan-changed", drill.Infra, "the plan changed meanwhile", nil, func(w *world) {
			w.ready = func(p chaos.Plan) (chaos.Plan, error) { p.Hash = "other"; return p, nil }
		}},
		{"not-made-ready", drill.Infra, "no CA", nil, func(w *world) {
			w.ready = func(p chaos.Plan) (chaos.Plan, error) { return p, errors.New("no CA") }
		}},
	}
}

// cloned requires an operator's action, although no hop fails.
func cloned(r *diag.Report) {
	r.Verdict.Reason, r.Verdict.UserState = diag.ReasonClonedIdentity, diag.UserSecurity
}

// said sets the platform's reason for the end of the walk's session.
func said(reason string) func(r *diag.Report) {
	return func(r *diag.Report) {
		row := map[string]string{"session.browser_connected_at": "2026-11-21T09:00:00Z", "session.close_reason": reason}
		r.Facts = append(r.Facts,
			diag.Fact{Request: diag.Request{Op: diag.OpHTTP}, HTTP: &diag.HTTPFacts{Status: 200, Fields: row}})
	}
}

// machineEndings are caused by the machines and the connections to them.
func machineEndings() []ending {
	two := func() chaos.Plan { return planOf("n1", "n2") }
	on := func(f func(b *box)) func(w *world) { return func(w *world) { f(w.boxes["n1"]) } }
	call := func(command string, all ...hitch) func(w *world) {
		return on(func(b *box) { b.line.hitches[command] = all })
	}
	refused := func(command, code string) func(w *world) {
		return on(func(b *box) { b.refuses[command] = step.Refuse(code, "no") })
	}
	return []ending{
		{"arm-refused-on-one", drill.AbortedGuard, "n1: locked: no", two, refused("arm", step.RefusedLocked)},
		{"arm-answer-lost", drill.Pass, "", nil, call("arm", cutAfter)},
		{"arm-never-arrives", drill.Infra, "not seen", nil, call("arm", cutBefore)},
		{"arm-arrives-late", drill.Infra, "interrupted", nil, func(w *world) {
			b := w.boxes["n1"]
			b.takes["arm"], b.line.hitches["arm"] = 4*time.Second, []hitch{frozenOut}
			w.interrupt = 3 * time.Second
		}},
		{"arm-dies", drill.Infra, "not seen", nil, func(w *world) {
			b := w.boxes["n1"]
			b.dies, b.line.hitches["arm"], b.line.hitches["close"] = true, []hitch{cutAfter}, []hitch{cutBefore}
		}},
		{"arm-not-confirmed", drill.Infra, "not seen", nil, call("status", cutBefore)},
		{"one-is-slow-to-arm", drill.Pass, "", two, func(w *world) { w.boxes["n2"].takes["arm"] = 30 * time.Second }},
		{"do-answer-lost", drill.Pass, "", nil, call("do", cutAfter)},
		{"do-never-arrives", drill.Pass, "", nil, call("do", cutBefore)},
		{"do-frozen", drill.Late, "seen within 36.0 s of 10 s", nil, call("do", frozenOut)},
		{"do-lost-and-not-to-be-read", drill.Infra, "not seen", nil, func(w *world) {
			call("do", cutAfter)(w)
			call("status", fine, cutBefore)(w)
		}},
		{"do-refused", drill.NotInjected, "effect_not_seen: step block: it is still there", nil,
			on(func(b *box) { b.unseen = "it is still there" })},
		{"do-cannot-be-made", drill.NotInjected, "a change could not be made", nil, on(func(b *box) { b.blocked = 1 })},
		{"do-fails-on-one-of-two", drill.NotInjected, "n1:", two, on(func(b *box) { b.unseen = "no" })},
		{"lease-over", drill.RevertedEarly, "its lease was not renewed",
			of(planOf("n1"), func(p *chaos.Plan) { p.Budgets.DetectWithin = seconds(40) }), func(w *world) {
				w.never, w.boxes["n1"].line.down = true, [2]time.Duration{1500 * time.Millisecond, 30 * time.Second}
				w.boxes["n1"].line.delay = 100 * time.Millisecond
			}},
		{"lease-over-unnoticed", drill.RevertedEarly, "its lease was not renewed", of(quiet("n1"), func(p *chaos.Plan) {
			p.Budgets.DetectWithin = seconds(40)
		}), func(w *world) {
			w.never, w.chain.takes = true, 13*time.Second
			w.boxes["n1"].refuses["renew"] = step.Refuse(step.RefusedBusy, "no")
		}},
		{"watchdog-told-to-stop", drill.RevertedEarly, "the watchdog was told to stop", nil,
			func(w *world) { w.never, w.boxes["n1"].expires = true, 3*time.Second }},
		{"cut-until-after-the-lease", drill.NotDetected, "", nil, func(w *world) {
			w.never, w.boxes["n1"].line.down = true, [2]time.Duration{1500 * time.Millisecond, 30 * time.Second}
		}},
		{"over-just-before-the-end", drill.RevertedEarly, "n1 reverted itself: the watchdog was told to stop", nil,
			func(w *world) {
				w.sore, w.boxes["n1"].expires = time.Second, 800*time.Millisecond
			}},
		{"mended-by-hand", drill.RevertedEarly, "and not by the drill", nil,
			func(w *world) { w.sore, w.boxes["n1"].mends = time.Second, 500*time.Millisecond }},
		{"taken-away", drill.Infra, "whether n1 is reverted is not known", nil, func(w *world) {
			w.never = true
			w.observe = func(e drill.Event, _ *drill.Story) {
				if e.Kind == drill.Walked && e.WalkView.N == 3 {
					b := w.boxes["n1"]
					b.with(func() { b.disk, b.text["/run/block"] = nil, "" })
					w.mark("/run/block", false)
				}
			}
		}},
		{"conflict", drill.Conflict, "file:/run/block: somebody has changed it", nil,
			on(func(b *box) { b.edits, b.hidden = 500*time.Millisecond, true; b.w.sore = time.Second })},
		{"conflict-and-residue", drill.Residue, "/run/block", nil,
			on(func(b *box) { b.edits = 500 * time.Millisecond; b.w.sore = time.Second })},
		{"undo-fails-at-first", drill.Pass, "", nil, on(func(b *box) { b.stuck = 2 })},
		{"undo-fails", drill.Residue, "could not revert everything yet", nil, on(func(b *box) { b.stuck = 10_000 })},
		{"leaky-revert", drill.Residue, "/run/crumb", nil, on(func(b *box) { b.leaky = true })},
		{"lying-success", drill.Residue, "/run/block", nil, on(func(b *box) { b.lying = true })},
		{"residue", drill.Residue, "file /etc/x: appeared: new", nil, on(func(b *box) { b.strange = "/etc/x" })},
		{"residue-allowed", drill.Pass, "", of(planOf("n1"), func(p *chaos.Plan) {
			p.Targets[0].Drill.Allowed = []step.Allow{{Class: step.ClassFile, Key: "/etc/*", Why: "renewed"}}
		}), on(func(b *box) { b.strange = "/etc/x" })},
		{"revert-answer-lost", drill.Pass, "", nil, call("revert", cutAfter)},
		{"revert-frozen", drill.Pass, "", nil, call("revert", frozen)},
		{"cut-while-putting-back", drill.Pass, "", nil, func(w *world) {
			w.boxes["n1"].line.down = [2]time.Duration{2120 * time.Millisecond, 40 * time.Second}
		}},
		{"never-reached-again", drill.Infra, "whether n1 is reverted is not known; it does so by itself after 20s", nil,
			func(w *world) {
				w.boxes["n1"].line.down = [2]time.Duration{2120 * time.Millisecond, time.Hour}
			}},
		{"reached-when-it-was-given-up", drill.Infra, "not seen: chain green after revert", nil, func(w *world) {
			w.boxes["n1"].line.down = [2]time.Duration{2120 * time.Millisecond, 53 * time.Second}
		}},
		{"decision-and-never-reached", drill.Infra, "whether n1 is reverted is not known",
			of(planOf("n1"), func(p *chaos.Plan) {
				p.Decision = &chaos.Decision{Path: "/x", Reason: "y"}
			}), func(w *world) { w.boxes["n1"].line.down = [2]time.Duration{2120 * time.Millisecond, time.Hour} }},
		{"verify-lost-once", drill.Pass, "", nil, call("verify", cutAfter)},
		{"verify-unreachable", drill.Infra, "n1 was not compared", nil, call("verify", repeated(cutBefore, 1000)...)},
		{"verify-refused", drill.Infra, "n1 was not compared", nil, refused("verify", step.RefusedBusy)},
		{"close-refused", drill.Infra, "the drill is still on n1: busy: no", nil, refused("close", step.RefusedBusy)},
		{"close-answer-lost", drill.Pass, "", nil, call("close", cutAfter)},
		{"slow-line", drill.Pass, "", nil, call("", repeated(slow, 30)...)},
	}
}

// wantsWarning makes a plan expect a hop that does not fail.
func wantsWarning(p *chaos.Plan) {
	p.Scenario.Expect.FirstFailedHop = nil
	p.Scenario.Expect.Blame.Finding = chaos.Finding{Hop: []diag.HopID{diag.HopGPUHealth},
		Signal: []diag.Signal{diag.SigGPUDegraded}, Status: diag.StatusWarn}
}

func warnsWhile(is func() bool) func(*diag.Report) {
	return func(r *diag.Report) {
		if is() {
			h := &r.Hops[diag.HopGPUHealth.Rank()]
			h.Status, h.Signal = diag.StatusWarn, diag.SigGPUDegraded
		}
	}
}

func repeated(h hitch, n int) []hitch {
	all := make([]hitch, n)
	for i := range all {
		all[i] = h
	}
	return all
}

// TestEndings compares every run with its expected course, and with the rules for every run.
func TestEndings(t *testing.T) {
	words := map[drill.Word]bool{}
	for _, e := range slices.Concat(endings(), machineEndings(), terminalEndings()) {
		words[e.word] = true
		t.Run(e.name, func(t *testing.T) {
			plan := planOf("n1")
			if e.plan != nil {
				plan = e.plan()
			}
			w := newWorld("n1", "n2")
			if e.in != nil {
				e.in(w)
			}
			o := w.run(t, plan)
			if v := o.story.Verdict(); v.Word != e.word || !strings.Contains(v.Text, e.text) {
				t.Errorf("%s: %s; want %s: ...%s...", v.Word, v.Text, e.word, e.text)
			}
			for _, wrong := range o.always() {
				t.Error(wrong)
			}
			golden(t, e.name, o.tell())
		})
	}
	for _, word := range drill.Words() {
		if !words[word] {
			t.Errorf("no run ends in %s", word)
		}
	}
}

// golden compares with testdata/NAME.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	goldentest.Check(t, filepath.Join("testdata", name+".txt"), got)
}
