package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// busy returns n ids of tasks.
func busy(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint("t", i))
	}
	return ids
}

// resultsOf returns results of tasks that completed.
func resultsOf(ids ...string) (all []PostResult) {
	for _, id := range ids {
		all = append(all, PostResult{TaskID: id, Correlation: "corr-" + id,
			Result: wire.TaskResult{Status: wire.TaskCompleted}})
	}
	return all
}

// TestHeartbeatsAreSentWhen: with a credential that can be used, one at a time, from the gate on until a stop.
func TestHeartbeatsAreSentWhen(t *testing.T) {
	for _, phase := range []Phase{PhaseIdentity, PhaseGate, PhaseServing, PhaseStopping} {
		for _, flying := range []bool{false, true} {
			for _, unusable := range []bool{false, true} {
				s := servingExactly()
				s.Phase, s.Heartbeat.InFlight, s.Unusable = phase, flying, unusable
				s.Profile, s.Challenge = "lab", "c1"
				_, effects := Step(s, Event{Wall: testWall, What: TimerFired{TimerHeartbeat}})
				want := ""
				if (phase == PhaseGate || phase == PhaseServing) && !flying && !unusable {
					want = "heartbeat(serving lab c1)"
				}
				if got := exact(effects); got != want {
					t.Errorf("%s, in flight %v, unusable %v: %q, want %q", phase, flying, unusable, got, want)
				}
			}
		}
	}
}

// TestTasksArePolledForUnless: each obstacle alone keeps a node from asking for tasks.
func TestTasksArePolledForUnless(t *testing.T) {
	for name, tc := range map[string]struct {
		from func(*State)
		want string
	}{
		"nothing":                    {func(*State) {}, "poll(16)"},
		"a hold":                     {func(s *State) { s.Hold = "bootstrap" }, ""},
		"no credentials yet":         {func(s *State) { s.Phase = PhaseIdentity }, ""},
		"before the first heartbeat": {func(s *State) { s.Phase = PhaseGate }, ""},
		"a poll in flight":           {func(s *State) { s.Wait.InFlight = true }, ""},
		"credentials without use":    {func(s *State) { s.Unusable = true }, ""},
		"a quarantine":               {func(s *State) { s.Ledger.Quarantined = Hold{Since: testWall} }, ""},
		"a revoked identity":         {func(s *State) { s.Heartbeat.Failing = diag.RecIdentityRevoked }, ""},
		"heartbeats that fail":       {func(s *State) { s.Heartbeat.Failing = diag.RecAPIUnreachable }, "poll(16)"},
		"a cordon":                   {func(s *State) { s.Ledger.Cordoned = Hold{Since: testWall} }, "poll(16)"},
		"a suppression":              {func(s *State) { s.Ledger.Suppressed = Hold{Since: testWall} }, "poll(16)"},
		"room for one poll":          {func(s *State) { s.Running = busy(16) }, "poll(16)"},
		"room for less than a poll":  {func(s *State) { s.Running = busy(17) }, "poll(15)"},
		"room for one":               {func(s *State) { s.Running = busy(31) }, "poll(1)"},
		"no room, running":           {func(s *State) { s.Running = busy(32) }, ""},
		"no room, results":           {func(s *State) { s.Results = resultsOf(busy(32)...) }, ""},
		"no room, both":              {func(s *State) { s.Running, s.Results = busy(20), resultsOf(busy(12)...) }, ""},
		"room for one, beside results": {func(s *State) { s.Running, s.Results = busy(20), resultsOf(busy(11)...) },
			"poll(1)"},
	} {
		s := servingExactly()
		s.Wait.InFlight = false
		tc.from(&s)
		if _, effects := Step(s, Event{Wall: testWall, What: TimerFired{TimerWait}}); exact(effects) != tc.want {
			t.Errorf("%s: %q, want %q", name, exact(effects), tc.want)
		}
	}
}

// TestStepHeartbeat: what a heartbeat's outcome changes.
func TestStepHeartbeat(t *testing.T) {
	flying := func(s *State) { s.Heartbeat.InFlight, s.Heartbeat.Armed = true, false }
	failing := func(s *State) {
		flying(s)
		s.Heartbeat.Failing, s.Heartbeat.Since = diag.RecAPIUnreachable, time.Second
		s.Heartbeat.Backoff = Backoff{Attempts: map[diag.RecordReason]int{diag.RecAPIUnreachable: 2}}
	}
	const taken = "Heartbeat.InFlight=false; Heartbeat.Armed=true"
	holds(t, map[string]rule{
		"accepted": {from: flying, at: 5 * time.Second, what: HeartbeatDone{}, want: "timer(heartbeat 10s)",
			changes: taken + "; Counters.Heartbeats=2"},
		"accepted, up to a tenth of the interval earlier": {from: flying, at: 5 * time.Second, roll: 0.5,
			what: HeartbeatDone{},
			want: "timer(heartbeat 9.5s)", changes: taken + "; Counters.Heartbeats=2"},
		"an echo is wanted at once": {from: flying, what: HeartbeatDone{Challenge: "c1", EchoNow: true},
			want: "timer(heartbeat 0s)", changes: taken + "; Challenge=c1; Prompt=true; Counters.Heartbeats=2"},
		"an echo of nothing": {from: flying, what: HeartbeatDone{EchoNow: true}, want: "timer(heartbeat 10s)",
			changes: taken + "; Counters.Heartbeats=2"},
		"a challenge for later": {from: flying, what: HeartbeatDone{Challenge: "c1"}, want: "timer(heartbeat 10s)",
			changes: taken + "; Challenge=c1; Counters.Heartbeats=2"},
		"a second echo in a row": {from: func(s *State) { flying(s); s.Prompt, s.Challenge = true, "c1" },
			what: HeartbeatDone{Challenge: "c2", EchoNow: true}, want: "timer(heartbeat 10s)",
			changes: taken + "; Challenge=c2; Prompt=false; Counters.Heartbeats=2"},
		"it works again": {from: failing, at: 5 * time.Second, what: HeartbeatDone{},
			want: "log(heartbeat works again); timer(heartbeat 10s)",
			changes: "Heartbeat.InFlight=false; Heartbeat.Armed=true; Heartbeat.Failing=none; " +
				"Heartbeat.Backoff=good since 5s api_unreachable:2; Counters.Heartbeats=2"},
		"the first of a kind of failure": {from: flying, at: 5 * time.Second, roll: 0.5,
			what: HeartbeatDone{Outcome: refused},
			want: "record(api_unreachable heartbeat retry attempt 1 in 275ms of 500ms tcp_refused); timer(heartbeat 275ms)",
			changes: taken + "; Heartbeat.Failing=api_unreachable; Heartbeat.Since=5s; " +
				"Heartbeat.Backoff=failing api_unreachable:1; Counters.HeartbeatFailures=1"},
		"the third of a kind": {from: failing, at: 5 * time.Second, what: HeartbeatDone{Outcome: refused},
			want:    "record(api_unreachable heartbeat retry attempt 3 in 200ms of 2s tcp_refused); timer(heartbeat 200ms)",
			changes: taken + "; Heartbeat.Backoff=failing api_unreachable:3; Counters.HeartbeatFailures=1"},
		"another kind of failure": {from: failing, at: 5 * time.Second,
			what: HeartbeatDone{Outcome: Outcome{Reason: diag.RecEdgeRateLimited, RetryAfter: time.Minute}},
			want: "record(edge_rate_limited heartbeat retry attempt 1 in 1m0.5s of 5s); timer(heartbeat 1m0.5s)",
			changes: taken + "; Heartbeat.Failing=edge_rate_limited; Heartbeat.Since=5s; " +
				"Heartbeat.Backoff=failing api_unreachable:2 edge_rate_limited:1; Counters.HeartbeatFailures=1"},
		"the gate opens": {from: func(s *State) { flying(s); s.Phase, s.Wait.InFlight = PhaseGate, false },
			at: 5 * time.Second, what: HeartbeatDone{}, want: "timer(heartbeat 10s); log(taking tasks); poll(16)",
			changes: "Phase=serving; " + taken + "; Wait.InFlight=true; Wait.Began=5s; Counters.Heartbeats=2"},
		"the gate does not stay shut": {from: func(s *State) { flying(s); s.Phase, s.Wait.InFlight = PhaseGate, false },
			what: HeartbeatDone{Outcome: refused},
			want: "record(api_unreachable heartbeat retry attempt 1 in 50ms of 500ms tcp_refused); timer(heartbeat 50ms); " +
				"log(taking tasks); poll(16)",
			changes: "Phase=serving; " + taken + "; Heartbeat.Failing=api_unreachable; " +
				"Heartbeat.Backoff=failing api_unreachable:1; Wait.InFlight=true; Counters.HeartbeatFailures=1"},
		"accepted, while stopping": {from: func(s *State) { flying(s); s.Phase = PhaseStopping },
			what: HeartbeatDone{Skew: time.Hour}, changes: "Heartbeat.InFlight=false; Counters.Heartbeats=2"},
		"refused, while stopping": {from: func(s *State) { flying(s); s.Phase = PhaseStopping },
			what:    HeartbeatDone{Outcome: Outcome{Reason: diag.RecClonedIdentity}},
			changes: "Heartbeat.InFlight=false; Counters.HeartbeatFailures=1"},
		"half a minute ahead": {from: flying, what: HeartbeatDone{Skew: 30 * time.Second}, want: "timer(heartbeat 10s)",
			changes: taken + "; Counters.Heartbeats=2"},
		"more than that": {from: flying, what: HeartbeatDone{Skew: -30*time.Second - 1},
			want: "record(clock_skew agent report clock_skew: the platform's clock minus this one: -30s); " +
				"timer(heartbeat 10s)", changes: taken + "; Skewed=true; Counters.Heartbeats=2"},
		"which is known": {from: func(s *State) { flying(s); s.Skewed = true }, what: HeartbeatDone{Skew: time.Minute},
			want: "timer(heartbeat 10s)", changes: taken + "; Counters.Heartbeats=2"},
		"and is over": {from: func(s *State) { flying(s); s.Skewed = true }, what: HeartbeatDone{Skew: 30 * time.Second},
			want:    "log(the clock agrees with the platform's again); timer(heartbeat 10s)",
			changes: taken + "; Skewed=false; Counters.Heartbeats=2"},
		"an answer with the time": {from: flying, at: 5 * time.Second, what: HeartbeatDone{Outcome: Outcome{Dated: true,
			Skew: time.Minute}}, want: "timer(heartbeat 10s)",
			changes: taken + "; Skew=1m0s; SkewAt=5s; SkewWall=5s; SkewKnown=true; Counters.Heartbeats=2"},
	})
}

// TestStepTimers: what a timer does, and that it does so in its phase alone.
func TestStepTimers(t *testing.T) {
	stopping := func(s *State) { s.Phase = PhaseStopping }
	idle := func(s *State) { s.Wait.InFlight = false }
	holds(t, map[string]rule{
		"identity": {what: TimerFired{TimerIdentity}, want: "CheckIdentity", changes: "Identity.InFlight=true"},
		"renew":    {what: TimerFired{TimerRenew}, want: "CheckIdentity", changes: "Identity.InFlight=true"},
		"identity, armed": {from: func(s *State) { s.Identity.Armed = true }, what: TimerFired{TimerIdentity},
			want: "CheckIdentity", changes: "Identity.InFlight=true; Identity.Armed=false"},
		"identity, in flight": {from: func(s *State) { s.Identity.InFlight = true },
			what: TimerFired{TimerIdentity}},
		"identity, stopping": {from: stopping, what: TimerFired{TimerIdentity}},
		"identity, exited":   {from: func(s *State) { s.Phase = PhaseExited }, what: TimerFired{TimerIdentity}},
		"watch":              {what: TimerFired{TimerWatch}},
		"watch, identity in doubt": {from: func(s *State) { s.Identity.Armed = true }, what: TimerFired{TimerWatch},
			want: "timer(watch 10s)"},
		"watch, stopping": {from: func(s *State) { stopping(s); s.Identity.Armed = true },
			what: TimerFired{TimerWatch}},
		"watch, a file was changed": {files: "2", what: TimerFired{TimerWatch}, want: "CheckIdentity",
			changes: "Identity.InFlight=true"},
		"watch, no file was looked at": {from: func(s *State) { s.Files = "" }, files: "2", what: TimerFired{TimerWatch}},
		"watch, no stamp":              {what: TimerFired{TimerWatch}},
		"watch, the same files":        {files: "1", what: TimerFired{TimerWatch}},
		"heartbeat": {at: time.Second, what: TimerFired{TimerHeartbeat}, want: "heartbeat(serving)",
			changes: "Heartbeat.InFlight=true; Heartbeat.Armed=false; Heartbeat.Began=1s"},
		"wait": {from: func(s *State) { idle(s); s.Wait.Armed = true }, at: time.Second, what: TimerFired{TimerWait},
			want: "poll(16)", changes: "Wait.InFlight=true; Wait.Armed=false; Wait.Began=1s"},
		"post": {from: func(s *State) { s.Post.Armed, s.Results = true, resultsOf("a") }, at: time.Second,
			what: TimerFired{TimerPost}, want: "post(a completed)",
			changes: "Post.InFlight=true; Post.Armed=false; Post.Began=1s; Posting=a"},
		"grace": {what: TimerFired{TimerGrace}},
		"grace, stopping": {from: stopping, what: TimerFired{TimerGrace}, want: "log(stopped); Exit",
			changes: "Phase=exited"},
		"grace, stopping, and a file was changed": {from: stopping, files: "2", what: TimerFired{TimerGrace},
			want: "log(stopped); Exit", changes: "Phase=exited"},
		"summary": {what: TimerFired{TimerSummary}, want: "log(summary); metrics(serving); timer(summary 1m0s)",
			changes: "Said.Heartbeats=1"},
		"summary, stopping": {from: stopping, what: TimerFired{TimerSummary}},
		"summary, counts that are not kept": {from: func(s *State) { s.Ledger.Counters.Rejections = 3 },
			what: TimerFired{TimerSummary}, want: "log(summary); metrics(serving); save(counts); timer(summary 1m0s)",
			changes: "Said.Heartbeats=1; Kept.Rejections=3"},
	})
}

// TestStepStartAndStop: the first event, and the last.
func TestStepStartAndStop(t *testing.T) {
	fresh := func(s *State) { *s = newState() }
	done := func(s *State) { s.Phase, s.Wait.InFlight = PhaseStopping, false }
	late := SessionEnded{TaskID: "a"}
	const ended = "log(terminal session ended)"
	beside := func(more func(*State)) func(*State) { return func(s *State) { done(s); more(s) } }
	holds(t, map[string]rule{
		"a second start": {what: Started{}},
		"a start": {from: func(s *State) { fresh(s); s.Ledger.Counters.Rejections = 2 }, what: Started{},
			want:    "record(process_alive agent start); timer(summary 1m0s); CheckIdentity",
			changes: "Phase=identity; Identity.InFlight=true; Kept.Rejections=2"},
		"a start with another program's note": {
			from: func(s *State) {
				fresh(s)
				s.Ledger.Notes = []Decision{{Reason: diag.RecRecoveryBundle, About: "identity", What: "update"}}
			},
			what: Started{}, want: "record(process_alive agent start); record(recovery_bundle_applied identity update); save; " +
				"timer(summary 1m0s); CheckIdentity", changes: "Phase=identity; Identity.InFlight=true; Ledger.Notes=0"},
		"a stop": {from: func(s *State) { s.Ledger.Counters.Rejections = 1 }, what: Shutdown{"SIGTERM"},
			want:    "record(shutdown agent stop: SIGTERM); save(counts); CancelWork; timer(grace 1.2s)",
			changes: "Phase=stopping; Kept.Rejections=1"},
		"a stop posts what waits": {from: func(s *State) { s.Results, s.Post.Armed = resultsOf("a"), true },
			what: Shutdown{}, want: "record(shutdown agent stop); CancelWork; timer(grace 1.2s); post(a completed)",
			changes: "Phase=stopping; Post.InFlight=true; Post.Armed=false; Posting=a"},
		"a second stop": {from: func(s *State) { s.Phase = PhaseStopping }, what: Shutdown{}},
		"a stop of an idle node": {from: func(s *State) { s.Wait.InFlight = false }, what: Shutdown{},
			want: "record(shutdown agent stop); CancelWork; timer(grace 1.2s); log(stopped); Exit", changes: "Phase=exited"},
		"nothing is left":     {from: done, what: late, want: ended + "; log(stopped); Exit", changes: "Phase=exited"},
		"a task is left":      {from: beside(func(s *State) { s.Running = busy(1) }), what: late, want: ended},
		"a result is left":    {from: beside(func(s *State) { s.Results = resultsOf("a") }), what: late, want: ended},
		"a poll is left":      {from: beside(func(s *State) { s.Wait.InFlight = true }), what: late, want: ended},
		"a heartbeat is left": {from: beside(func(s *State) { s.Heartbeat.InFlight = true }), what: late, want: ended},
		"a check is left":     {from: beside(func(s *State) { s.Identity.InFlight = true }), what: late, want: ended},
		"a post is left":      {from: beside(func(s *State) { s.Post.InFlight = true }), what: late, want: ended},
		"a session is left": {from: beside(func(s *State) { s.Sessions = 2 }), what: late, want: ended,
			changes: "Sessions=1"},
		"the last session": {from: beside(func(s *State) { s.Sessions = 1 }), what: late, want: ended +
			"; log(stopped); Exit",
			changes: "Phase=exited; Sessions=0"},
		"no session was counted": {what: late, want: ended},
		"after the end":          {from: func(s *State) { s.Phase = PhaseExited }, what: late},
	})
}

// TestSummaryCountsSinceTheLast: a summary shows what happened since the summary before it.
func TestSummaryCountsSinceTheLast(t *testing.T) {
	s := servingExactly()
	s.Counters = Counters{Heartbeats: 9, HeartbeatFailures: 4, Polls: 8, PollFailures: 3, Tasks: 7}
	s.Said = Counters{Heartbeats: 4, HeartbeatFailures: 3, Polls: 2, PollFailures: 1, Tasks: 5}
	s.Running, s.Sessions, s.Results = busy(3), 2, resultsOf("a")
	_, effects := Step(s, Event{Wall: testWall, What: TimerFired{TimerSummary}})
	const want = "[phase=serving heartbeats=5 ok, 1 failed polls=6 ok, 2 failed posture=serving tasks=2 running=3 " +
		"sessions=2 results_waiting=1]"
	if got := fmt.Sprint(effects[0].(Log).Attrs); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
