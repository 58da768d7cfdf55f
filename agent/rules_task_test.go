package agent

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// taskOf returns a task for this node, modified by change.
func taskOf(typ string, change func(*wire.Task)) *wire.Task {
	return signed("a", func(task *wire.Task) {
		task.Type = typ
		if change != nil {
			change(task)
		}
	})
}

// TestStepPolls: what the end of a poll without a task changes, and when the next begins.
func TestStepPolls(t *testing.T) {
	polling := func(s *State) { s.Wait.InFlight, s.Wait.Began = true, time.Minute }
	failing := func(s *State) {
		polling(s)
		s.Wait.Failing, s.Wait.Since = diag.RecTaskPollFailed, time.Second
	}
	bad := WaitDone{Outcome: Outcome{Reason: diag.RecTaskPollFailed, Failure: diag.HTTPStatus, Status: 500}}
	const counted = "; Counters.Polls=1"
	holds(t, map[string]rule{
		"at once": {from: polling, at: time.Minute, what: WaitDone{}, want: "timer(task_wait 1s)",
			changes: "Wait.InFlight=false; Wait.Armed=true; Wait.Backoff=good since 1m0s" + counted},
		"a little early": {from: polling, at: time.Minute + 999*time.Millisecond, what: WaitDone{},
			want:    "timer(task_wait 1ms)",
			changes: "Wait.InFlight=false; Wait.Armed=true; Wait.Backoff=good since 1m0.999s" + counted},
		"a moment early": {from: polling, at: time.Minute + time.Second - 1, what: WaitDone{}, want: "timer(task_wait 1ns)",
			changes: "Wait.InFlight=false; Wait.Armed=true; Wait.Backoff=good since 1m0.999999999s" + counted},
		"in time": {from: polling, at: time.Minute + time.Second, what: WaitDone{}, want: "poll(16)",
			changes: "Wait.Began=1m1s; Wait.Backoff=good since 1m1s" + counted},
		"while stopping": {from: func(s *State) { polling(s); s.Phase, s.Running = PhaseStopping, busy(1) }, at: time.Minute,
			what: WaitDone{}, changes: "Wait.InFlight=false; Wait.Backoff=good since 1m0s" + counted},
		"it works again": {from: failing, at: 2 * time.Minute, what: WaitDone{}, want: "log(task_wait works again); poll(16)",
			changes: "Wait.Began=2m0s; Wait.Failing=none; Wait.Backoff=good since 2m0s" + counted},
		"a failure": {from: polling, at: 2 * time.Minute, what: bad,
			want: "record(task_poll_failed task_wait retry attempt 1 in 50ms of 500ms http_status 500); timer(task_wait 50ms)",
			changes: "Wait.InFlight=false; Wait.Armed=true; Wait.Failing=task_poll_failed; Wait.Since=2m0s; " +
				"Wait.Backoff=failing task_poll_failed:1; Counters.PollFailures=1"},
		"the same failure": {from: failing, at: 2 * time.Minute, what: bad,
			want: "record(task_poll_failed task_wait retry attempt 1 in 50ms of 500ms http_status 500); timer(task_wait " +
				"50ms)",
			changes: "Wait.InFlight=false; Wait.Armed=true; Wait.Backoff=failing task_poll_failed:1; Counters.PollFailures=1"},
		"a failure while stopping": {from: func(s *State) { polling(s); s.Phase, s.Running = PhaseStopping, busy(1) },
			what:    bad,
			changes: "Wait.InFlight=false"},
		"a failure with the time": {from: polling, what: WaitDone{Outcome: Outcome{Reason: diag.RecTaskPollFailed,
			Dated: true,
			Skew:  time.Minute}},
			want: "record(task_poll_failed task_wait retry attempt 1 in 50ms of 500ms); timer(task_wait 50ms)",
			changes: "Wait.InFlight=false; Wait.Armed=true; Wait.Failing=task_poll_failed; " +
				"Wait.Backoff=failing task_poll_failed:1; Skew=1m0s; SkewWall=0s; SkewKnown=true; Counters.PollFailures=1"},
	})
}

// TestWhichTasksAreRefused: the reasons in their order; each row leaves all reasons above it out.
func TestWhichTasksAreRefused(t *testing.T) {
	on := Hold{Since: testWall, Why: "why"}
	all := func(s *State) {
		s.Phase, s.Ledger.Quarantined, s.Ledger.Cordoned, s.Observed.Denied = PhaseStopping, on, on, wire.DenyFenced
	}
	other := func(task *wire.Task) { task.NodeID = "node-2" }
	late := func(task *wire.Task) { task.ExpiresAt = testWall.Add(-2 * time.Millisecond) }
	until := func(d time.Duration) *wire.Task {
		return taskOf(wire.TaskNoop, func(task *wire.Task) { task.ExpiresAt = testWall.Add(d) })
	}
	forged := taskOf(wire.TaskNoop, other)
	forged.Signature[0] ^= 1
	denied := func(s *State) { s.Observed.Denied, s.Ledger.Cordoned = wire.DenyFenced, on }
	for name, tc := range map[string]struct {
		from      func(*State)
		task      *wire.Task
		code, why string
	}{
		"stopping": {all, forged, "agent_stopping", "the agent is stopping"},
		"forged": {func(s *State) { all(s); s.Phase = PhaseServing }, forged, "task_unverifiable",
			"task signature does not verify: key \"k1\""},
		"another node's": {denied, taskOf(wire.TaskNoop, other), "task_unverifiable",
			"the task is for node node-2"},
		"quarantined": {func(s *State) { denied(s); s.Ledger.Quarantined = on }, taskOf(wire.TaskTerminalOpen,
			late), "node_quarantined", "another host may have this node's identity: why"},
		"quarantined, no terminal": {func(s *State) { s.Ledger.Quarantined = on }, taskOf(wire.TaskNoop, nil),
			"node_quarantined", "another host may have this node's identity: why"},
		"denied, a terminal": {denied, taskOf(wire.TaskTerminalOpen, late), "node_fenced",
			"the platform denies this node's identity: fenced"},
		"denied, no terminal": {denied, taskOf(wire.TaskNoop, nil), "", ""},
		"cordoned, a terminal": {func(s *State) { s.Ledger.Cordoned = on }, taskOf(wire.TaskTerminalOpen, late),
			"node_cordoned", "the node takes no new tenant work: why"},
		"cordoned, no terminal": {func(s *State) { s.Ledger.Cordoned = on }, taskOf(wire.TaskNoop, nil), "", ""},
		"neither, a terminal":   {func(*State) {}, taskOf(wire.TaskTerminalOpen, nil), "", ""},
		"ended":                 {func(*State) {}, taskOf(wire.TaskNoop, late), "task_expired", "expired 2ms ago"},
		"ends now":              {func(*State) {}, until(0), "task_expired", "expired 0s ago"},
		"ends in a moment":      {func(*State) {}, until(time.Nanosecond), "", ""},
		"has no end": {func(*State) {}, taskOf(wire.TaskNoop,
			func(task *wire.Task) { task.ExpiresAt = time.Time{} }), "", ""},
	} {
		s := servingExactly()
		tc.from(&s)
		turn := turn{s: s, ev: Event{Wall: testWall}}
		if code, why := turn.refusal(tc.task); code != tc.code || why != tc.why {
			t.Errorf("%s: %q, %q; want %q, %q", name, code, why, tc.code, tc.why)
		}
	}
}

// TestStepTasks: what a task that arrives, and one that ends, changes.
func TestStepTasks(t *testing.T) {
	long := func(s *State) { s.Wait.Began = -time.Hour }
	const polled = "; Wait.Backoff=good since 0s"
	old := resultsOf("a")[0]
	forged := taskOf(wire.TaskNoop, nil)
	forged.Signature[0] ^= 1
	expired := *signed("b", func(task *wire.Task) { task.ExpiresAt = testWall })
	cordon := func(payload string) WaitDone {
		return WaitDone{Task: taskOf(wire.TaskCordon, func(task *wire.Task) { task.Payload = []byte(payload) })}
	}
	running := func(s *State) { s.Running, s.Wait.InFlight = []string{"a", "b"}, true }
	done := wire.TaskResult{Status: wire.TaskCompleted}
	broken := wire.TaskResult{Status: wire.TaskFailed, Error: &wire.ErrorInfo{Code: "pty_failed", Message: "no",
		CorrelationID: "c"}}
	finished := func(change func(*TaskFinished)) TaskFinished {
		w := TaskFinished{TaskID: "a", Correlation: "corr-a", Result: done}
		if change != nil {
			change(&w)
		}
		return w
	}
	const taken = "Post.InFlight=true; Running=b; Results=a; Posting=a"
	holds(t, map[string]rule{
		"a task": {from: long, what: WaitDone{Task: taskOf(wire.TaskNoop, nil)}, want: "log(task received); run(a); poll(16)",
			changes: "Wait.Began=0s" + polled + "; Running=a; Counters.Polls=1; Counters.Tasks=1"},
		"a task that runs": {from: func(s *State) { s.Running = []string{"a"} }, what: WaitDone{Task: taskOf(wire.TaskNoop,
			nil)},
			want:    "log(task handed out again while it is open); timer(task_wait 1s)",
			changes: "Wait.InFlight=false; Wait.Armed=true" + polled + "; Counters.Polls=1"},
		"a task whose result waits": {from: func(s *State) { s.Results, s.Post.Armed = resultsOf("a"), true },
			what:    WaitDone{Task: taskOf(wire.TaskNoop, nil)},
			want:    "log(task handed out again while it is open); timer(task_wait 1s)",
			changes: "Wait.InFlight=false; Wait.Armed=true" + polled + "; Counters.Polls=1"},
		"a task that is done with": {from: func(s *State) { s.Recent = append(resultsOf("b"), old) },
			what: WaitDone{Task: taskOf(wire.TaskNoop, nil)},
			want: "log(task handed out again after its result was delivered); post(a completed); timer(task_wait 1s)",
			changes: "Wait.InFlight=false; Wait.Armed=true" + polled + "; Post.InFlight=true; Results=a; Posting=a; Recent=b; " +
				"Counters.Polls=1"},
		"a new one behind a known one": {from: func(s *State) { s.Running = []string{"a"} },
			what: WaitDone{Task: taskOf(wire.TaskNoop, nil), More: []wire.Task{*signed("b", nil), *taskOf(wire.TaskNoop,
				nil)}},
			want: "log(task handed out again while it is open); log(task received); run(b); log(task handed out again " +
				"while it is open); poll(16)",
			changes: "Wait.Backoff=good since 0s; Running=a,b; Counters.Polls=1; Counters.Tasks=1"},
		"a forged one": {what: WaitDone{Task: forged},
			want: "log(task received); record(task_claim_failed task refuse task_unverifiable a corr-a: task signature does " +
				"not verify: key \"k1\"); post(a failed task_unverifiable); timer(task_wait 1s)",
			changes: "Wait.InFlight=false; Wait.Armed=true" + polled + "; Post.InFlight=true; Results=a; Posting=a; " +
				"Counters.Polls=1; Counters.Tasks=1; Counters.Refused=1"},
		"one that is over": {what: WaitDone{Task: &expired},
			want: "log(task received); record(task_claim_failed task refuse task_expired b corr-b: expired 0s ago); " +
				"post(b failed task_expired); poll(16)",
			changes: "Wait.Backoff=good since 0s; Post.InFlight=true; Results=b; Posting=b; Counters.Polls=1; " +
				"Counters.Tasks=1; " +
				"Counters.Refused=1"},
		"a cordon": {what: cordon(`{"reason":"memory"}`),
			want: "log(task received); record(node_cordoned task stop a corr-a: memory); save; post(a completed); poll(16)",
			changes: "Wait.Backoff=good since 0s; Post.InFlight=true; Results=a; Posting=a; Ledger.Cordoned=on; " +
				"Counters.Polls=1; " +
				"Counters.Tasks=1"},
		"the end of a cordon": {from: func(s *State) { s.Ledger.Cordoned = Hold{Since: testWall} },
			what: cordon(`{"lift":true}`),
			want: "log(task received); record(node_cordoned task release a corr-a); save; post(a completed); poll(16)",
			changes: "Wait.Backoff=good since 0s; Post.InFlight=true; Results=a; Posting=a; Ledger.Cordoned=off; " +
				"Counters.Polls=1; Counters.Tasks=1"},
		"a cordon that cannot be read": {what: cordon(`[]`), want: "log(task received); post(a failed task_invalid); " +
			"poll(16)",
			changes: "Wait.Backoff=good since 0s; Post.InFlight=true; Results=a; Posting=a; Counters.Polls=1; Counters.Tasks=1"},
		"finished": {from: running, what: finished(nil), want: "log(task finished); post(a completed)", changes: taken},
		"finished, and a poll has room again": {from: func(s *State) { running(s); s.Wait.InFlight = false },
			what: finished(nil), want: "log(task finished); post(a completed); poll(16)",
			changes: "Wait.InFlight=true; " + taken},
		"finished, unknown": {from: running, what: finished(func(w *TaskFinished) { w.TaskID = "c" })},
		"finished elsewhere": {from: func(s *State) { running(s); s.Wait.InFlight = false },
			what: finished(func(w *TaskFinished) { w.Elsewhere, w.Session = true, true }), want: "poll(16)",
			changes: "Wait.InFlight=true; Running=b"},
		"finished with a session": {from: running, what: finished(func(w *TaskFinished) { w.Session = true }),
			want: "log(task finished); post(a completed)", changes: "Post.InFlight=true; Running=b; Sessions=1; Results=a; " +
				"Posting=a; Counters.Sessions=1"},
		"failed without a reason": {from: running, what: finished(func(w *TaskFinished) { w.Result = broken }),
			want: "log(task finished); post(a failed pty_failed)", changes: taken + "; Counters.TasksFailed=1"},
		"failed with a reason": {from: running,
			what:    finished(func(w *TaskFinished) { w.Result, w.Reason = broken, diag.RecTaskClaimFailed }),
			want:    "log(task finished); record(task_claim_failed task report pty_failed a c: no); post(a failed pty_failed)",
			changes: taken + "; Counters.TasksFailed=1"},
		"completed with a reason": {from: running,
			what: finished(func(w *TaskFinished) { w.Reason = diag.RecTaskClaimFailed }),
			want: "log(task finished); record(task_claim_failed task report a); post(a completed)", changes: taken},
		"finished with a note": {from: running,
			what: finished(func(w *TaskFinished) {
				w.Note = &Decision{Reason: diag.RecProcessAlive, About: "task",
					What: "report"}
			}),
			want: "log(task finished); record(process_alive task report); post(a completed)", changes: taken},
	})
}

// TestStepResults: how results are delivered, and what the outcome of one changes.
func TestStepResults(t *testing.T) {
	posting := func(s *State) {
		s.Results, s.Posting, s.Post.InFlight = resultsOf("a", "b"), []string{"a"}, true
	}
	several := func(s *State) {
		s.Results, s.Posting = resultsOf("a", "b", "c"), []string{"a", "b"}
		s.Post.InFlight, s.Post.Reported = true, true
	}
	bad := Outcome{Reason: diag.RecTaskResultPostFailed, Failure: diag.HTTPStatus, Status: 503}
	final := bad
	final.Final = true
	const good = "Post.Backoff=good since 1m0s; "
	holds(t, map[string]rule{
		"taken for the first time": {from: posting, at: time.Minute,
			what: ResultPosted{TaskID: "a", Outcome: Outcome{Status: 200, Correlation: "c"}},
			want: "record(process_alive task_result delivered c 200); post(b completed)",
			changes: "Post.Began=1m0s; Post.Reported=true; " + good +
				"Results=b; Posting=b; Recent=a; Counters.ResultsPosted=1"},
		"taken": {from: several, at: time.Minute, what: ResultPosted{TaskID: "a"}, want: "post(c completed)",
			changes: "Post.Began=1m0s; " + good + "Results=b,c; Posting=b,c; Recent=a; Counters.ResultsPosted=1"},
		"taken, the last": {from: func(s *State) { posting(s); s.Results, s.Post.Reported = resultsOf("a"), true },
			at: time.Minute, what: ResultPosted{TaskID: "a"},
			changes: "Post.InFlight=false; " + good + "Results=; Posting=; Recent=a; Counters.ResultsPosted=1"},
		"taken, and a poll has room again": {
			from: func(s *State) { posting(s); s.Wait.InFlight, s.Running = false, busy(30) }, at: time.Minute,
			what: ResultPosted{TaskID: "a"}, want: "record(process_alive task_result delivered); post(b completed); poll(1)",
			changes: "Wait.InFlight=true; Wait.Began=1m0s; Post.Began=1m0s; Post.Reported=true; " + good +
				"Results=b; Posting=b; Recent=a; Counters.ResultsPosted=1"},
		"taken, after failures": {from: func(s *State) { posting(s); s.Post.Failing = diag.RecTaskResultPostFailed },
			at: time.Minute, what: ResultPosted{TaskID: "a"},
			want: "record(process_alive task_result delivered); log(task_result works again); post(b completed)",
			changes: "Post.Began=1m0s; Post.Failing=none; Post.Reported=true; " + good +
				"Results=b; Posting=b; Recent=a; Counters.ResultsPosted=1"},
		"unknown": {from: posting, what: ResultPosted{TaskID: "x", Outcome: bad}},
		"unknown, none in flight": {from: func(s *State) { s.Results, s.Post.InFlight = resultsOf("a"), false },
			what: ResultPosted{TaskID: "x"}, want: "post(a completed)", changes: "Post.InFlight=true; Posting=a"},
		"never to be taken": {from: several, at: time.Minute, what: ResultPosted{TaskID: "a", Outcome: final},
			want:    "record(task_result_post_failed task_result drop http_status a corr-a 503)",
			changes: "Post.Reported=false; Results=b,c; Posting=b; Recent=a; Counters.ResultFailures=1"},
		"failed while stopping": {from: func(s *State) { posting(s); s.Phase = PhaseStopping }, at: time.Minute,
			what:    ResultPosted{TaskID: "a", Outcome: bad},
			want:    "record(task_result_post_failed task_result drop http_status a corr-a 503); post(b completed)",
			changes: "Post.Began=1m0s; Results=b; Posting=b; Recent=a; Counters.ResultFailures=1"},
		"failed": {from: several, at: time.Minute, what: ResultPosted{TaskID: "a", Outcome: bad},
			want: "record(task_result_post_failed task_result retry attempt 1 in 50ms of 500ms http_status a corr-a 503); " +
				"timer(task_result 50ms)",
			changes: "Post.Armed=true; Post.Failing=task_result_post_failed; Post.Reported=false; Post.Since=1m0s; " +
				"Post.Backoff=failing task_result_post_failed:1; Results=b,c,a; Posting=b; Counters.ResultFailures=1"},
		"failed beside one that failed": {from: func(s *State) { several(s); s.Post.Armed = true },
			what:    ResultPosted{TaskID: "a", Outcome: bad},
			changes: "Post.Reported=false; Results=b,c,a; Posting=b; Counters.ResultFailures=1"},
		"failed on a denied node": {from: func(s *State) { posting(s); s.Observed.Denied = wire.DenyRevoked },
			at:   time.Minute,
			what: ResultPosted{TaskID: "a", Outcome: bad},
			want: "record(task_result_post_failed task_result retry attempt 1 in 500ms of 5s http_status a corr-a 503); " +
				"timer(task_result 500ms)",
			changes: "Post.InFlight=false; Post.Armed=true; Post.Failing=task_result_post_failed; Post.Since=1m0s; " +
				"Post.Backoff=failing task_result_post_failed:1; Results=b,a; Posting=; Counters.ResultFailures=1"},
		"not before the back-off is over": {from: func(s *State) { s.Results, s.Post.Armed = resultsOf("a"), true },
			what: ResultPosted{TaskID: "x"}},
		"eight at once": {from: func(s *State) {
			s.Results, s.Posting, s.Post.Reported = resultsOf(busy(12)...), busy(7), true
		}, what: TimerFired{TimerPost}, want: "post(t7 completed)",
			changes: "Post.InFlight=true; Posting=t0,t1,t2,t3,t4,t5,t6,t7"},
		"no ninth": {from: func(s *State) {
			s.Results, s.Posting, s.Post.Reported = resultsOf(busy(12)...), busy(8), true
		}, what: TimerFired{TimerPost}},
	})
}

// TestRecentResultsAreBounded: as many as can be open at once, the oldest is forgotten first.
func TestRecentResultsAreBounded(t *testing.T) {
	s := servingExactly()
	s.Recent = resultsOf(busy(maxRecent - 1)...)
	s.Results, s.Posting = resultsOf("x", "y"), []string{"x"}
	s, _ = play(s, ResultPosted{TaskID: "x"})
	if len(s.Recent) != maxRecent || s.Recent[0].TaskID != "t0" {
		t.Errorf("%d results, from %s", len(s.Recent), s.Recent[0].TaskID)
	}
	s, _ = play(s, ResultPosted{TaskID: "y"})
	if len(s.Recent) != maxRecent || s.Recent[0].TaskID != "t1" || s.Recent[maxRecent-1].TaskID != "y" {
		t.Errorf("%d results, from %s to %s", len(s.Recent), s.Recent[0].TaskID, s.Recent[maxRecent-1].TaskID)
	}
}
