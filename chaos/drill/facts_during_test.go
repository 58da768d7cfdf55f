package drill

import (
	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// unseen are the claims that rest on the walk that detects the fault, with those of more.
func unseen(more map[string]string) map[string]string {
	all := map[string]string{ClaimInTime: no, ClaimSpared: no, ClaimTold: no}
	for id, state := range more {
		all[id] = state
	}
	return all
}

func factsDuring() []fact {
	const not, collateral, infra = vi + " not_injected", vi + " collateral", no + " infra"
	// missed is a change after which no walk reports the fault.
	missed := func(then func(s *Story)) func(s *Story) {
		return func(s *Story) {
			w := s.walkOf(4)
			w.Blame, w.Outcome, w.Hops[diag.HopNodeRuntimeAPI] = nil, diag.OutcomePass, diag.StatusPass
			then(s)
		}
	}
	task := func(id string, s *Story) {
		s.walkOf(1).ReadModel = map[string]string{"task.id": "other"}
		s.walkOf(2).ReadModel, s.walkOf(2).CorrelationID = map[string]string{"session.task_id": "t"}, "c2"
		s.walkOf(8).AgentSays = map[string]string{"t": id, "another": "x"}
	}
	return []fact{
		{"a step failed its check", func(s *Story) { s.Machines[1].Against = "it is still there" },
			map[string]string{ClaimInjected: not, ClaimInTime: no, ClaimKept: no}, "n2: it is still there", NotInjected},
		{"a step was not made", func(s *Story) { delete(s.Machines[1].Made, "disk") },
			map[string]string{ClaimInTime: no, ClaimKept: no}, "", Infra},
		{"no steps", func(s *Story) { s.Plan.Schedule = nil }, map[string]string{ClaimInTime: no, ClaimKept: no}, "",
			Infra},
		{"no probe", func(s *Story) { s.without(During, ProbeInjected) }, map[string]string{ClaimInjected: no}, "", Infra},
		{"a probe could not run", func(s *Story) {
			l := s.LastProbe(During, ProbeInjected)
			l.Held, l.NotRun, l.Why = false, true, "no such program"
		}, map[string]string{ClaimInjected: infra}, "no such program", Infra},
		{"a probe sees nothing", func(s *Story) { s.fails(During, ProbeInjected) }, map[string]string{ClaimInjected: not},
			"exit code 1", NotInjected},
		{"the control fails", func(s *Story) { s.fails(During, ProbeControl) },
			map[string]string{ClaimControl: not}, "", NotInjected},
		{"the agent wrote the walk's id", func(s *Story) { task("c2", s) }, map[string]string{}, "", Pass},
		{"the agent wrote another id", func(s *Story) { task("c9", s) }, map[string]string{ClaimDetected: collateral},
			`of t of walk 2 under the id "c9", and the walk's is c2`, Collateral},
		{"the agent may write another id", func(s *Story) {
			task("c9", s)
			s.Plan.Scenario.Expect.SameCorrelationID = false
		}, map[string]string{}, "", Pass},
		{"nothing is blamed", missed(func(*Story) {}), unseen(map[string]string{ClaimDetected: vi + " not_detected"}),
			"blames nothing (pass)", NotDetected},
		{"nothing is blamed, and nobody looked", missed(func(s *Story) { s.without(During) }),
			unseen(map[string]string{ClaimDetected: no}), "", Infra},
		{"nothing is blamed, and it was stopped", missed(func(s *Story) { s.Stopped = "stopIf" }),
			unseen(map[string]string{ClaimDetected: no, ClaimGuards: vi + " aborted_guard"}), "", AbortedGuard},
		{"nothing is blamed, and it was interrupted", missed(func(s *Story) { s.Interrupted = "by the operator" }),
			unseen(map[string]string{ClaimDetected: no}), "", Infra},
		{"nothing is blamed, and it is not in place", missed(func(s *Story) { delete(s.Machines[0].Made, "block") }),
			unseen(map[string]string{ClaimDetected: no, ClaimKept: no}), "", Infra},
		{"nothing is blamed, and one reverted itself", missed(func(s *Story) { s.Machines[1].Lost = "lease" }),
			unseen(map[string]string{ClaimDetected: no, ClaimKept: vi + " reverted_early"}), "n2 reverted itself",
			RevertedEarly},
		{"nothing is blamed, and the probe saw nothing", missed(func(s *Story) { s.fails(During, ProbeInjected) }),
			unseen(map[string]string{ClaimDetected: no, ClaimInjected: not}), "", NotInjected},
		{"nothing is blamed, and the control failed", missed(func(s *Story) { s.fails(During, ProbeControl) }),
			unseen(map[string]string{ClaimDetected: no, ClaimControl: not}), "", NotInjected},
		{"the wrong hop is blamed", func(s *Story) { s.walkOf(4).Blame.Hop = diag.HopNodeHeartbeat },
			unseen(map[string]string{ClaimDetected: vi + " wrong_hop"}), "the chain blames node_heartbeat", WrongHop},
		{"nothing was to be blamed, once", func(s *Story) { s.quietly(); s.Walks = append(s.Walks[:1], s.Walks[2:]...) },
			unseen(map[string]string{ClaimDetected: no}), "", Infra},
		{"at the last moment", func(s *Story) { s.walkOf(4).EndedMS = 12_000 }, map[string]string{}, "within 10 s", Pass},
		{"late", func(s *Story) { s.walkOf(4).EndedMS = 12_001 }, map[string]string{ClaimInTime: vi + " late"},
			"seen within 10.1 s of 10 s", Late},
		{"a hop failed in passing", func(s *Story) {
			s.walkOf(2).Hops[diag.HopControlPlaneAccess] = diag.StatusFail
			s.walkOf(2).Others = []diag.Blame{{Hop: diag.HopNodeHeartbeat, Text: "other"}, {Hop: diag.HopControlPlaneAccess},
				{Hop: diag.HopControlPlaneAccess, Text: "no answer"}}
		}, map[string]string{ClaimSpared: collateral},
			"control_plane_access failed in walk 2, and must stay green: no answer",
			Collateral},
		{"a hop was left out", func(s *Story) { s.walkOf(4).Hops[diag.HopNodeHeartbeat] = diag.StatusSkipped },
			map[string]string{ClaimSpared: infra}, "not measured: node_heartbeat, which must stay green", Infra},
		{"a hop that may fail does", func(s *Story) { s.walkOf(2).Hops[diag.HopNodeReadiness] = diag.StatusFail },
			map[string]string{}, "", Pass},
		{"a spinner", func(s *Story) { s.walkOf(4).Spinner = true }, map[string]string{ClaimTold: collateral},
			"without a word", Collateral},
		{"a user's view is missing", func(s *Story) { s.walkOf(4).Unseen = []diag.HopID{diag.HopBrowserTerminalWS} },
			map[string]string{ClaimTold: infra}, "what the user got at browser_terminal_ws", Infra},
		{"a user's view was not known then",
			func(s *Story) { s.walkOf(4).Hops[diag.HopBrowserTerminalWS] = diag.StatusFail },
			map[string]string{ClaimTold: infra}, "not measured: what the user got", Infra},
		{"a user's view is known", func(s *Story) {
			s.walkOf(4).Hops[diag.HopBrowserTerminalWS], s.walkOf(4).UserSaw = diag.StatusFail, "HTTP 502"
		}, map[string]string{}, "", Pass},
		{"one reverted itself", func(s *Story) { s.Machines[0].Lost = "lease" },
			map[string]string{ClaimKept: vi + " reverted_early"}, "n1 reverted itself: lease", RevertedEarly},
		{"one was restored by another process", func(s *Story) {
			s.Machines[1].State = step.Lost
			s.Machines[1].Steps = []step.StepStatus{{Changes: []step.ChangeStatus{{Place: "a", State: step.Reverted},
				{Place: "b", State: step.Lost, Text: "by hand"}}}}
		}, map[string]string{ClaimKept: vi + " reverted_early"},
			"n2 was restored before its revert began, and not by the " +
				"drill: b: by hand", RevertedEarly},
		{"one was restored by another process, and was not asked", func(s *Story) {
			s.Machines[1].State, s.Machines[1].RevertedMS = step.Lost, 0
		}, map[string]string{ClaimReverted: no + " infra", ClaimGreenAfter: no}, "whether n2 is reverted", Infra},
		{"one was restored by another process in the first moment", func(s *Story) {
			s.Machines[1].State, s.Machines[1].RevertedMS = step.Lost, 1
		}, map[string]string{ClaimKept: vi + " reverted_early"}, "n2 was restored before its revert began", RevertedEarly},
		{"one was never there", func(s *Story) {
			s.Machines[1].State = step.Lost
			s.fails(During, ProbeInjected)
		}, map[string]string{ClaimInjected: not}, "", NotInjected},
	}
}

// factsOfTerminals are about a terminal that is open when the fault is injected.
func factsOfTerminals() []fact {
	const collateral, infra = vi + " collateral", no + " infra"
	ends := func(before, during *Seen, then func(w *WalkView)) func(s *Story) {
		return func(s *Story) {
			s.Plan.Scenario.Expect.Terminal = "node_lost"
			for stage, l := range map[Stage]*Seen{Before: before, During: during} {
				if l != nil {
					l.Name, l.Stage = ProbeTerminal, stage
					s.Looks = append(s.Looks, ProbeResult{*l, 2100})
				}
			}
			then(s.walkOf(4))
		}
	}
	fine := func(*WalkView) {}
	missed := func(w *WalkView) { w.Blame.Hop = diag.HopNodeHeartbeat }
	wrong := unseen(map[string]string{ClaimDetected: vi + " wrong_hop"})
	open, ended := &Seen{Held: true}, &Seen{Held: true, Why: "closed with 1011 node_lost"}
	return []fact{
		{"ends as it must", ends(open, ended, fine), map[string]string{}, "", Pass},
		{"could not be opened", ends(&Seen{NotRun: true, Why: "no token"}, nil, fine), map[string]string{ClaimTold: infra},
			"how a terminal ends: no token", Infra},
		{"was not looked at", ends(nil, nil, fine), map[string]string{ClaimTold: infra}, "how a terminal ends that was",
			Infra},
		{"was not looked at, and nothing is seen", ends(nil, nil, missed), wrong, "", WrongHop},
		{"ends otherwise", ends(open, &Seen{Why: "closed with 1006"}, fine), map[string]string{ClaimTold: collateral},
			"a terminal that was open before: closed with 1006, want node_lost", Collateral},
		{"ends as it must, and nothing is seen", ends(open, ended, missed), wrong, "", WrongHop},
		{"ends as it must, and a new one spins", ends(open, ended, func(w *WalkView) { w.Spinner = true }),
			map[string]string{ClaimTold: collateral}, "without a word", Collateral},
		{"ends as it must, and a new one was not looked at", ends(open, ended,
			func(w *WalkView) { w.Unseen = []diag.HopID{diag.HopBrowserTerminalWS} }), map[string]string{ClaimTold: infra},
			"",
			Infra},
	}
}

func factsAfter() []fact {
	const infra, nothing = no + " infra", vi + " no_recovery"
	decided := func(why *string) func(s *Story) {
		return func(s *Story) { s.Plan.Decision, s.Decided = &chaos.Decision{Path: "/x"}, why }
	}
	untouched := func(p *MachineStory) { *p = MachineStory{MachineResult: MachineResult{ID: p.ID}, Made: p.Made} }
	return []fact{
		{"one is in conflict", func(s *Story) { s.Machines[1].State = step.Conflict },
			map[string]string{ClaimReverted: vi + " conflict", ClaimGreenAfter: no}, "n2: conflict", Conflict},
		{"one cannot revert", func(s *Story) { s.Machines[1].State = step.Failed },
			map[string]string{ClaimReverted: vi + " residue", ClaimGreenAfter: no}, "could not revert everything yet",
			Residue},
		{"one does not say that it is reverted", func(s *Story) { s.Machines[1].RevertedMS = 0 },
			map[string]string{ClaimReverted: infra, ClaimGreenAfter: no}, "whether n2 is reverted is not known", Infra},
		{"one says that it is not", func(s *Story) { s.Machines[1].State = step.Done },
			map[string]string{ClaimReverted: infra, ClaimGreenAfter: no}, "whether n2 is reverted is not known", Infra},
		{"one never began", func(s *Story) { s.Machines[1].State = step.Planned }, map[string]string{}, "", Pass},
		{"one was not touched", func(s *Story) { untouched(&s.Machines[1]) }, map[string]string{ClaimArmed: no}, "", Infra},
		{"none was touched", func(s *Story) { untouched(&s.Machines[0]); untouched(&s.Machines[1]) },
			map[string]string{ClaimGuards: no, ClaimArmed: no, ClaimReverted: no, ClaimGreenAfter: no, ClaimClean: no,
				ClaimClosed: no}, "", Infra},
		{"one was closed before it was armed", func(s *Story) {
			s.Machines[1].Armed, s.Machines[1].State, s.Machines[1].RevertedMS, s.Machines[1].Clean = false, "", 0, nil
		}, map[string]string{ClaimArmed: no}, "", Infra},
		{"one may still be armed", func(s *Story) {
			s.Machines[1].Armed, s.Machines[1].State, s.Machines[1].RevertedMS, s.Machines[1].Clean = false, "", 0, nil
			s.Machines[1].Closed = false
		}, map[string]string{ClaimArmed: no, ClaimReverted: infra, ClaimClosed: infra}, "whether n2 is reverted", Infra},
		{"decided", decided(new("")), map[string]string{}, "", Pass},
		{"not decided", decided(new("409")), map[string]string{ClaimProof: nothing}, "did not take the decision: 409",
			NoRecovery},
		{"nobody decided", decided(nil), map[string]string{ClaimProof: no}, "", Infra},
		{"no proof", func(s *Story) { s.without(After, ProbeProof) }, map[string]string{ClaimProof: no}, "", Infra},
		{"no repair", func(s *Story) { s.fails(After, ProbeProof) }, map[string]string{ClaimProof: nothing}, "",
			NoRecovery},
		{"no repair, for it is not reverted", func(s *Story) {
			s.Machines[0].RevertedMS = 0
			s.fails(After, ProbeProof)
		}, map[string]string{ClaimProof: no, ClaimReverted: infra, ClaimGreenAfter: no}, "", Infra},
		{"at the last moment", func(s *Story) { s.walkOf(8).EndedMS = 26_000 }, map[string]string{}, "and 20 s of 20 s",
			Pass},
		{"green late", func(s *Story) { s.walkOf(8).EndedMS = 26_001 }, map[string]string{ClaimGreenAfter: nothing},
			"green between 1 s and 20.1 s of 20 s", NoRecovery},
		{"no walk after", func(s *Story) { s.without(After) }, map[string]string{ClaimGreenAfter: no}, "", Infra},
		{"green once", func(s *Story) { s.Walks = s.Walks[:len(s.Walks)-1] }, map[string]string{ClaimGreenAfter: nothing},
			"green less than 2 times in a row", NoRecovery},
		{"green once, and interrupted", func(s *Story) { s.Walks = s.Walks[:len(s.Walks)-1]; s.Interrupted = "by hand" },
			map[string]string{ClaimGreenAfter: no}, "by hand", Infra},
		{"red at last", func(s *Story) { s.walkOf(9).Outcome = diag.OutcomeFail },
			map[string]string{ClaimGreenAfter: nothing},
			"the chain is not green: fail", NoRecovery},
		{"red in a walk that began with the last revert", func(s *Story) {
			s.Machines[1].RevertedMS, s.walkOf(9).Outcome = 8100, diag.OutcomeFail
		}, map[string]string{ClaimGreenAfter: nothing}, "the chain is not green: fail", NoRecovery},
		{"still warns", func(s *Story) {
			s.Plan.Scenario.Expect.Blame.Status = diag.StatusWarn
			warn := diag.Blame{Hop: diag.HopNodeRuntimeAPI, Signal: diag.SigAPIUnreachable, Status: diag.StatusWarn}
			s.walkOf(4).Blame, s.walkOf(4).Unfailed, s.walkOf(9).Unfailed = nil, []diag.Blame{warn}, []diag.Blame{warn}
		}, map[string]string{ClaimGreenAfter: nothing}, "not green: node_runtime_api_reachability", NoRecovery},
		{"green from the moment when all was reverted", func(s *Story) { s.Machines[1].RevertedMS = 7100 },
			map[string]string{}, "", Pass},
		{"green from before all was reverted", func(s *Story) { s.Machines[1].RevertedMS = 7101 },
			map[string]string{ClaimGreenAfter: nothing}, "green less than 2 times in a row", NoRecovery},
		{"the last walk began before all was reverted", func(s *Story) { s.Machines[1].RevertedMS = 8101 },
			map[string]string{ClaimGreenAfter: no}, "", Infra},
		{"residue", func(s *Story) {
			s.Machines[1].Clean = new(false)
			s.Machines[1].Residue = []step.Residue{{Class: step.ClassFile, Key: "/a", After: "x", Allowed: "known"},
				{Class: step.ClassFile, Key: "/b", After: "x"}}
		}, map[string]string{ClaimClean: vi + " residue"}, "n2: file /b: appeared: x", Residue},
		{"not compared", func(s *Story) { s.Machines[0].Clean = nil }, map[string]string{ClaimClean: infra},
			"n1 was not compared", Infra},
		{"reverted, never armed, and not compared",
			func(s *Story) {
				s.Machines[0].Clean, s.Machines[0].Armed, s.Machines[0].RevertedMS = nil, false, 1
			},
			map[string]string{ClaimArmed: no, ClaimClean: infra}, "", Infra},
		{"not closed", func(s *Story) { s.Machines[0].Closed, s.Machines[0].NotClosed = false, "busy" },
			map[string]string{ClaimClosed: infra}, "the drill is still on n1: busy", Infra},
		{"trouble", func(s *Story) { s.without(After, ProbeProof); s.Trouble = []string{"n1: cut"} },
			map[string]string{ClaimProof: no}, "; n1: cut", Infra},
	}
}
