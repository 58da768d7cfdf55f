package agent

import (
	"crypto/ed25519"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

var (
	testKey  = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	testWall = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
)

func newState() State {
	return State{NodeID: testNode, Interval: 10 * time.Second, Grace: stopGrace,
		Verifiers: wire.Verifiers{"k1": testKey.Public().(ed25519.PublicKey)}}
}

func signed(id string, change func(*wire.Task)) *wire.Task {
	task := &wire.Task{ID: id, NodeID: testNode, Type: wire.TaskNoop, CorrelationID: "corr-" + id, QueuedAt: testWall,
		ExpiresAt: testWall.Add(time.Minute)}
	if change != nil {
		change(task)
	}
	task.Sign("k1", testKey)
	return task
}

// words lists effects in the short form of the table.
func words(effects []Effect) string {
	var out []string
	for _, e := range effects {
		switch e := e.(type) {
		case Log:
			continue
		case Record:
			out = append(out, fmt.Sprintf("record(%s %s %s)", e.Decision.Reason, e.Decision.About, e.Decision.What))
		case SetTimer:
			out = append(out, fmt.Sprintf("timer(%s)", e.Timer))
		case RunTask:
			out = append(out, "run("+e.Task.ID+")")
		case PostResult:
			code := ""
			if e.Result.Error != nil {
				code = " " + e.Result.Error.Code
			}
			out = append(out, "post("+e.TaskID+" "+e.Result.Status+code+")")
		default:
			out = append(out, strings.TrimPrefix(reflect.TypeOf(e).String(), "agent."))
		}
	}
	return strings.Join(out, " ")
}

// material returns a valid credential, modified by change.
func material(change func(*Material)) IdentityChecked {
	m := Material{Files: "1", Names: []string{testNode}, NotBefore: testWall.Add(-time.Hour),
		NotAfter: testWall.Add(24 * time.Hour), Serial: "1"}
	if change != nil {
		change(&m)
	}
	return IdentityChecked{m}
}

var (
	healthy = material(nil)
	never   = IdentityChecked{
		Material{Files: "0", Never: true, Problem: Outcome{Reason: diag.RecCertMissing}, Token: TokenFacts{Digest: "t1"}},
	}

	neverNoToken = IdentityChecked{Material{Files: "0", Never: true, Problem: Outcome{Reason: diag.RecCertMissing}}}
)

var refused = Outcome{Reason: diag.RecAPIUnreachable, Failure: diag.TCPRefused}

func TestStep(t *testing.T) {
	serving := []What{Started{}, healthy, HeartbeatDone{}}
	done := TaskFinished{TaskID: "a", Result: wire.TaskResult{Status: wire.TaskCompleted}}
	for name, tc := range map[string]struct {
		before []What
		what   What
		want   string
	}{
		"start": {what: Started{}, want: "record(process_alive agent start) timer(summary) CheckIdentity"},
		"credentials are there: one heartbeat before any task": {
			before: []What{Started{}}, what: healthy, want: "SendHeartbeat timer(renew)",
		},
		"the gate opens": {before: []What{Started{}, healthy}, what: HeartbeatDone{}, want: "timer(heartbeat) WaitTask"},
		"the platform wants an echo at once": {before: []What{Started{}, healthy},
			what: HeartbeatDone{Challenge: "c1", EchoNow: true}, want: "timer(heartbeat) WaitTask"},
		"an unreachable platform does not keep the gate shut": {before: []What{Started{}, healthy},
			what: HeartbeatDone{Outcome: refused}, want: "record(api_unreachable heartbeat retry) timer(heartbeat) WaitTask"},
		"no certificate, a token": {before: []What{Started{}}, what: never,
			want: "record(cert_missing identity enroll) Enroll"},
		"no certificate, no token": {before: []What{Started{}}, what: neverNoToken,
			want: "record(cert_missing identity report) record(recovery_token_missing identity retry) timer(identity) " +
				"timer(watch)"},
		"enrolled": {before: []What{Started{}, never}, what: EnrollDone{Outcome: Outcome{Sent: true}},
			want: "SaveLedger WriteMetrics record(recovery_enrolled identity enrolled) CheckIdentity"},
		"enrollment refused": {before: []What{Started{}, never},
			what: EnrollDone{Outcome: Outcome{Reason: diag.RecRecoveryTokenExpired, Sent: true, Code: wire.DenyTokenExpired}},
			want: "SaveLedger WriteMetrics record(recovery_token_expired identity retry) timer(identity) timer(watch)"},
		"and tried again from the start": {before: []What{Started{}, never,
			EnrollDone{Outcome: Outcome{Reason: diag.RecRecoveryTokenExpired, Sent: true, Code: wire.DenyTokenExpired}}},
			what: TimerFired{TimerIdentity}, want: "CheckIdentity"},
		"the next heartbeat":               {before: serving, what: TimerFired{TimerHeartbeat}, want: "SendHeartbeat"},
		"a poll without a task, too early": {before: serving, what: WaitDone{}, want: "timer(task_wait)"},
		"a poll that failed": {before: serving, what: WaitDone{Outcome: Outcome{Reason: diag.RecEdgeRateLimited}},
			want: "record(edge_rate_limited task_wait retry) timer(task_wait)"},
		"a task": {before: serving, what: WaitDone{Task: signed("a", nil)}, want: "run(a) WaitTask"},
		"a task signed by somebody else": {before: serving,
			what: WaitDone{Task: func() *wire.Task { x := signed("a", nil); x.Type = "other"; return x }()},
			want: "record(task_claim_failed task refuse) post(a failed task_unverifiable) timer(task_wait)"},
		"a task for another node": {before: serving,
			what: WaitDone{Task: signed("a", func(x *wire.Task) { x.NodeID = "node-2" })},
			want: "record(task_claim_failed task refuse) post(a failed task_unverifiable) timer(task_wait)"},
		"an expired task": {before: serving, what: WaitDone{Task: signed("a", func(x *wire.Task) { x.ExpiresAt = testWall })},
			want: "record(task_claim_failed task refuse) post(a failed task_expired) WaitTask"},
		"the same task again while it runs": {before: append(serving, WaitDone{Task: signed("a", nil)}),
			what: WaitDone{Task: signed("a", nil)}, want: "timer(task_wait)"},
		"a result": {before: append(serving, WaitDone{Task: signed("a", nil)}), what: done, want: "post(a completed)"},
		"the same task again after its result was delivered": {
			before: append(serving, WaitDone{Task: signed("a", nil)}, done, ResultPosted{TaskID: "a"}),
			what:   WaitDone{Task: signed("a", nil)}, want: "post(a completed) timer(task_wait)"},
		"a result that cannot be posted": {before: append(serving, WaitDone{Task: signed("a", nil)}, done),
			what: ResultPosted{TaskID: "a", Outcome: Outcome{Reason: diag.RecTaskResultPostFailed}},
			want: "record(task_result_post_failed task_result retry) timer(task_result)"},
		"and is tried again": {before: append(serving, WaitDone{Task: signed("a", nil)}, done,
			ResultPosted{TaskID: "a", Outcome: Outcome{Reason: diag.RecTaskResultPostFailed}}), what: TimerFired{TimerPost},
			want: "post(a completed)"},
		"the first result that is taken": {before: append(serving, WaitDone{Task: signed("a", nil)}, done),
			what: ResultPosted{TaskID: "a"}, want: "record(process_alive task_result delivered)"},
		"the next one": {before: append(serving, WaitDone{Task: signed("a", nil)}, done, ResultPosted{TaskID: "a"},
			WaitDone{Task: signed("b", nil)}, TaskFinished{TaskID: "b", Result: wire.TaskResult{Status: wire.TaskCompleted}}),
			what: ResultPosted{TaskID: "b"}, want: ""},
		"several at once, once one was taken": {before: append(serving, WaitDone{Task: signed("a", nil)}, done,
			ResultPosted{TaskID: "a"}, WaitDone{Task: signed("b", nil)}, WaitDone{Task: signed("c", nil)},
			TaskFinished{TaskID: "b", Result: wire.TaskResult{Status: wire.TaskCompleted}}),
			what: TaskFinished{TaskID: "c", Result: wire.TaskResult{Status: wire.TaskCompleted}}, want: "post(c completed)"},
		"and one alone before that": {before: append(serving, WaitDone{Task: signed("a", nil)},
			WaitDone{Task: signed("b", nil)}, done),
			what: TaskFinished{TaskID: "b", Result: wire.TaskResult{Status: wire.TaskCompleted}}, want: ""},
		"several tasks of one poll": {before: serving,
			what: WaitDone{Task: signed("a", nil), More: []wire.Task{*signed("b", nil), *signed("c", nil)}},
			want: "run(a) run(b) run(c) WaitTask"},
		"and one after a failure": {before: append(serving, WaitDone{Task: signed("a", nil)}, done, ResultPosted{TaskID: "a"},
			WaitDone{Task: signed("b", nil)}, TaskFinished{TaskID: "b", Result: wire.TaskResult{Status: wire.TaskCompleted}},
			ResultPosted{TaskID: "b", Outcome: Outcome{Reason: diag.RecTaskResultPostFailed}}, TimerFired{TimerPost}),
			what: ResultPosted{TaskID: "b"}, want: "record(process_alive task_result delivered)"},
		"a result that the platform will never take": {before: append(serving, WaitDone{Task: signed("a", nil)}, done),
			what: ResultPosted{TaskID: "a", Outcome: Outcome{Reason: diag.RecTaskResultPostFailed, Final: true}},
			want: "record(task_result_post_failed task_result drop)"},
		"a wrong clock": {before: append(serving, TimerFired{TimerHeartbeat}), what: HeartbeatDone{Skew: time.Hour},
			want: "record(clock_skew agent report) timer(heartbeat)"},
		"shutdown aborts what is under way": {before: serving, what: Shutdown{},
			want: "record(shutdown agent stop) CancelWork timer(grace)"},
		"and ends with it":       {before: append(serving, Shutdown{}), what: WaitDone{Outcome: refused}, want: "Exit"},
		"or when its time is up": {before: append(serving, Shutdown{}), what: TimerFired{TimerGrace}, want: "Exit"},
		"a task that was handed out while stopping": {before: append(serving, Shutdown{}),
			what: WaitDone{Task: signed("a", nil)}, want: "record(task_claim_failed task refuse) post(a failed agent_stopping)"},
		"shutdown before anything": {before: []What{
			Started{}, IdentityChecked{Material{Problem: Outcome{Reason: diag.RecCertKeyMismatch}}},
		}, what: Shutdown{},
			want: "record(shutdown agent stop) CancelWork timer(grace) Exit"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			for _, w := range tc.before {
				s, _ = Step(s, Event{Wall: testWall, What: w})
			}
			if _, effects := Step(s, Event{Wall: testWall, What: tc.what}); words(effects) != tc.want {
				t.Errorf("got  %s\nwant %s", words(effects), tc.want)
			}
		})
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	s := newState()
	for _, w := range []What{Started{}, healthy, HeartbeatDone{}} {
		s, _ = Step(s, Event{What: w})
	}
	_, effects := Step(s, Event{
		What: WaitDone{Outcome: Outcome{Reason: diag.RecEdgeRateLimited, RetryAfter: 90 * time.Second}},
	})
	for _, e := range effects {
		if timer, ok := e.(SetTimer); ok && timer.In < 90*time.Second {
			t.Errorf("asks again in %v", timer.In)
		}
	}
}

func TestAttemptsAreForgottenOnlyAfterAStableWindow(t *testing.T) {
	const stable = 20 * time.Second
	var b Backoff
	fail := func() int {
		var attempt int
		b, attempt, _, _ = b.Failed(refused, 10*time.Second, 0.5)
		return attempt
	}
	fail()
	fail()
	b = b.Succeeded(time.Second, stable)
	b = b.Succeeded(stable, stable) // 19 s of success
	if n := fail(); n != 3 {
		t.Errorf("attempt %d after an unstable success, want 3", n)
	}
	b = b.Succeeded(30*time.Second, stable)
	b = b.Succeeded(30*time.Second+stable, stable)
	if n := fail(); n != 1 {
		t.Errorf("attempt %d after a stable window, want 1", n)
	}
}

func TestTakesNoMoreThanItCanKeep(t *testing.T) {
	s := newState()
	for _, w := range []What{Started{}, healthy, HeartbeatDone{}} {
		s, _ = Step(s, Event{Wall: testWall, What: w})
	}
	for i := range maxOpen {
		if !s.Wait.InFlight {
			t.Fatalf("no poll with %d open tasks", i)
		}
		s, _ = Step(s, Event{Wall: testWall, What: WaitDone{Task: signed(fmt.Sprint("t", i), nil)}})
	}
	if s.Wait.InFlight {
		t.Fatal("polls for a task that it cannot keep")
	}
	s, _ = Step(s, Event{Wall: testWall, What: TaskFinished{TaskID: "t0"}})
	if s.Wait.InFlight {
		t.Fatal("an undelivered result makes no room")
	}
	if s, _ = Step(s, Event{Wall: testWall, What: ResultPosted{TaskID: "t0"}}); !s.Wait.InFlight {
		t.Fatal("does not poll again")
	}
}

// TestChallenge: each heartbeat echoes the newest challenge that arrived, a lost response changes nothing, and the
// platform gets only one immediate echo in a row, so that it cannot set this node's pace.
func TestChallenge(t *testing.T) {
	s := newState()
	for _, w := range []What{Started{}, healthy} {
		s, _ = Step(s, Event{Wall: testWall, What: w})
	}
	beat := func(done HeartbeatDone) (echo string, in time.Duration) {
		t.Helper()
		var effects []Effect
		if !s.Heartbeat.InFlight {
			s, effects = Step(s, Event{Wall: testWall, What: TimerFired{TimerHeartbeat}})
			for _, e := range effects {
				if h, ok := e.(SendHeartbeat); ok {
					echo = h.Challenge
				}
			}
		}
		s, effects = Step(s, Event{Wall: testWall, What: done})
		for _, e := range effects {
			if timer, ok := e.(SetTimer); ok && timer.Timer == TimerHeartbeat {
				in = timer.In
			}
		}
		return echo, in
	}
	for i, c := range []struct {
		done HeartbeatDone
		echo string
		in   time.Duration
	}{
		{HeartbeatDone{Challenge: "c1", EchoNow: true}, "", 0},
		{HeartbeatDone{Challenge: "c2", EchoNow: true}, "c1", s.Interval},
		{HeartbeatDone{Challenge: "c3"}, "c2", s.Interval},
		{HeartbeatDone{}, "c3", s.Interval}, // an older platform under the same name
		{HeartbeatDone{Challenge: "c4", EchoNow: true}, "c3", 0},
	} {
		if echo, in := beat(c.done); echo != c.echo || in != c.in {
			t.Errorf("heartbeat %d echoes %q and the next comes in %s, want %q and %s", i+1, echo, in, c.echo, c.in)
		}
	}
	lost := Outcome{Reason: diag.RecAPIUnreachable}
	if echo, _ := beat(HeartbeatDone{Outcome: lost}); echo != "c4" || s.Challenge != "c4" {
		t.Errorf("an answer that was lost: echo %q, then %q", echo, s.Challenge)
	}
}

// TestBatchesHandedOutAgain: a platform that lost its state delivers again all tasks that can be open at once.
// Nothing is executed twice, and every result is delivered again.
func TestBatchesHandedOutAgain(t *testing.T) {
	s := newState()
	var runs, posts int
	step := func(what What) {
		var effects []Effect
		s, effects = Step(s, Event{Wall: testWall, What: what})
		for _, e := range effects {
			switch e.(type) {
			case RunTask:
				runs++
			case PostResult:
				posts++
			}
		}
	}
	for _, w := range []What{Started{}, healthy, HeartbeatDone{}} {
		step(w)
	}
	for range 2 {
		for _, first := range []int{0, wire.MaxTasks} {
			batch := WaitDone{Task: signed(fmt.Sprint("task", first), nil)}
			for i := range wire.MaxTasks - 1 {
				batch.More = append(batch.More, *signed(fmt.Sprint("task", first+i+1), nil))
			}
			step(batch)
		}
		for i := range maxOpen {
			step(TaskFinished{TaskID: fmt.Sprint("task", i), Result: wire.TaskResult{Status: wire.TaskCompleted}})
		}
		for len(s.Posting) > 0 {
			step(ResultPosted{TaskID: s.Posting[0]})
		}
	}
	if runs != maxOpen || posts != 2*maxOpen {
		t.Errorf("%d tasks were executed %d times, and %d results given", maxOpen, runs, posts)
	}
}
