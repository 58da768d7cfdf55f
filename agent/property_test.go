package agent

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// world plays the runtime: it holds the effects that Step returned and completes them in any order, with any
// outcome.
type world struct {
	t     *rapid.T
	state State
	at    time.Duration

	pending  map[string]func() What // effects in flight, by a unique name
	timers   map[Timer]bool
	taken    map[string]int // times a task was handed out, by id
	runs     map[string]int // times it was executed
	posted   map[string]int // results accepted, by id
	dropped  map[string]int
	sessions int
	next     int
	ceilings map[string]time.Duration // by loop and reason, since attempts were last reset
	attempts map[string]int
	exited   bool

	material Material               // as of the last look
	saved    Ledger                 // as it is on disk
	asked    map[string][]time.Time // enrollments that may have reached the platform, by token
	idle     bool                   // the platform has no tasks
	limited  []Outcome              // outcomes of limiters: the only failures in this world
}

func newWorld(t *rapid.T) *world {
	s := newState()
	return &world{t: t, state: s, pending: map[string]func() What{}, timers: map[Timer]bool{}, taken: map[string]int{},
		runs: map[string]int{}, posted: map[string]int{}, dropped: map[string]int{}, ceilings: map[string]time.Duration{},
		attempts: map[string]int{}}
}

func (w *world) event(what What) {
	w.at += time.Duration(rapid.IntRange(0, 40_000).Draw(w.t, "ms")) * time.Millisecond
	before := fmt.Sprintf("%#v", w.state)
	ev := Event{At: w.at, Wall: testWall.Add(w.at), Roll: rapid.Float64Range(0, 0.999).Draw(w.t, "roll"), What: what}
	old := w.state
	next, effects := Step(old, ev)
	if again, same := Step(old, ev); !reflect.DeepEqual(next, again) || !reflect.DeepEqual(effects, same) {
		w.t.Fatal("Step is not a function")
	}
	if after := fmt.Sprintf("%#v", old); after != before {
		w.t.Fatalf("Step changed its argument\nbefore %s\nafter  %s", before, after)
	}
	if w.exited && len(effects) > 0 {
		w.t.Fatalf("effects after Exit: %s", words(effects))
	}
	w.state = next
	for i, e := range effects {
		w.effect(e)
		if w.exited && i != len(effects)-1 {
			w.t.Fatalf("effects after Exit: %s", words(effects))
		}
	}
}

func (w *world) begin(name string, finish func() What) {
	if w.pending[name] != nil {
		w.t.Fatalf("two of %s in flight", name)
	}
	w.pending[name] = finish
}

// finishHeartbeat completes a heartbeat, sometimes with a challenge, and sometimes with a request for an immediate
// echo.
func (w *world) finishHeartbeat() What {
	done := HeartbeatDone{Outcome: w.outcome(refusals...)}
	if done.Outcome.OK() {
		done.Challenge, done.EchoNow = rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(w.t, "challenge"),
			rapid.Bool().Draw(w.t, "echo now")
	}
	return done
}

func (w *world) effect(e Effect) {
	switch e := e.(type) {
	case SetTimer:
		if e.In < 0 {
			w.t.Fatalf("timer %s in %v", e.Timer, e.In)
		}
		w.timers[e.Timer] = true
	case Record:
		w.decided(e.Decision)
	case CheckIdentity:
		w.begin("identity", func() What {
			return w.lookAtDisk()
		})
	case AskClock:
		w.begin("identity", func() What { return ClockAsked{w.outcome(diag.RecAPIUnreachable)} })
	case FallBack:
		w.begin("identity", func() What { return FellBack{w.outcome(diag.RecDiskFull)} })
	case SaveLedger:
		w.saved = e.Ledger
	case Enroll:
		w.enrolls(e)
		w.saved = e.Ledger
		w.begin("identity", func() What { return w.finishEnroll() })
	case SendHeartbeat:
		w.begin("heartbeat", func() What { return w.finishHeartbeat() })
	case WaitTask:
		if e.Most < 1 || e.Most > wire.MaxTasks || e.Most > maxOpen-len(w.state.Running)-len(w.state.Results) {
			w.t.Fatalf("asks for %d tasks", e.Most)
		}
		w.begin("wait", func() What { return w.finishWait(e.Most) })
	case RunTask:
		if w.runs[e.Task.ID]++; w.runs[e.Task.ID] > 1 && w.next <= maxRecent {
			w.t.Fatalf("task %s is executed twice", e.Task.ID)
		}
		w.begin("run "+e.Task.ID, func() What { return w.finishTask(e.Task.ID) })
	case PostResult:
		if n := len(w.state.Posting); n > maxPosts {
			w.t.Fatalf("%d results are under way", n)
		}
		w.begin("post "+e.TaskID, func() What {
			o := w.outcome(diag.RecTaskResultPostFailed, diag.RecEdgeRateLimited)
			if o.OK() {
				w.posted[e.TaskID]++
			} else if rapid.IntRange(0, 4).Draw(w.t, "final") == 0 {
				o.Final = true
			}
			return ResultPosted{TaskID: e.TaskID, Outcome: o}
		})
	case Exit:
		w.exited = true
	}
}

func (w *world) decided(d Decision) {
	if d.What == "drop" {
		w.dropped[d.TaskID]++
	}
	if d.Attempt == 0 {
		return
	}
	key := d.About + " " + string(d.Reason)
	if d.Attempt == 1 {
		w.ceilings[key] = 0
	}
	policy, ok := retryPolicies[d.Reason]
	switch {
	// may be from an enrollment, or from a denied node
	case d.About == string(TimerIdentity), d.About == string(TimerPost):
		policy = slowRetry
	case !ok:
		policy = defaultRetry
	}
	limit := time.Duration(policy.capIntervals) * w.state.Interval
	// it waits for the budget
	if (d.Ceiling < w.ceilings[key] && d.About != string(TimerIdentity)) || d.Ceiling > limit ||
		(d.Delay > d.Ceiling && d.Reason != diag.RecRecoverySuppressed) ||
		d.Delay <= 0 {
		w.t.Fatalf("attempt %d of %s: delay %v, ceiling %v after %v, cap %v", d.Attempt, key, d.Delay, d.Ceiling,
			w.ceilings[key], limit)
	}
	if d.Attempt > 1 && d.Attempt != w.attempts[key]+1 {
		w.t.Fatalf("attempt %d of %s after %d", d.Attempt, key, w.attempts[key])
	}
	w.ceilings[key], w.attempts[key] = d.Ceiling, d.Attempt
}

func (w *world) outcome(bad ...diag.RecordReason) Outcome {
	if rapid.Bool().Draw(w.t, "ok") {
		return Outcome{}
	}
	if len(w.limited) > 0 {
		return rapid.SampledFrom(w.limited).Draw(w.t, "limiter")
	}
	return Outcome{Reason: rapid.SampledFrom(bad).Draw(w.t, "reason")}
}

// finishWait completes a poll, sometimes with several tasks, some of which were delivered before.
func (w *world) finishWait(most int) What {
	if w.idle {
		return WaitDone{Outcome: w.outcome(refusals...)}
	}
	switch rapid.IntRange(0, 5).Draw(w.t, "wait") {
	case 0:
		return WaitDone{Outcome: w.outcome(refusals...)}
	case 1:
		return WaitDone{}
	case 2: // handed out again
		if ids := slices.Sorted(maps.Keys(w.taken)); len(ids) > 0 {
			id := rapid.SampledFrom(ids).Draw(w.t, "again")
			w.taken[id]++
			return WaitDone{Task: signed(id, nil)}
		}
		return WaitDone{}
	}
	done := WaitDone{Task: w.newTask()}
	for range rapid.IntRange(0, most-1).Draw(w.t, "more") {
		if rapid.IntRange(0, 3).Draw(w.t, "twice") == 0 {
			id := rapid.SampledFrom(slices.Sorted(maps.Keys(w.taken))).Draw(w.t, "again")
			w.taken[id]++
			done.More = append(done.More, *signed(id, nil))
			continue
		}
		done.More = append(done.More, *w.newTask())
	}
	return done
}

// newTask returns a task that was not delivered before, sometimes with an invalid signature.
func (w *world) newTask() *wire.Task {
	w.next++
	id := fmt.Sprint("task", w.next)
	w.taken[id]++
	task := signed(id, nil)
	if rapid.IntRange(0, 3).Draw(w.t, "forged") == 0 {
		task.Signature = []byte("forged")
	}
	return task
}

func (w *world) finishTask(id string) What {
	session := rapid.IntRange(0, 3).Draw(w.t, "session") == 0
	if session {
		w.sessions++
	}
	return TaskFinished{TaskID: id, Result: wire.TaskResult{Status: wire.TaskCompleted}, Session: session}
}

// progress completes one effect in flight, or fires a timer, or requests a stop.
func (w *world) progress() {
	names := slices.Sorted(maps.Keys(w.pending))
	for _, timer := range slices.Sorted(maps.Keys(w.timers)) {
		names = append(names, "timer "+string(timer))
	}
	if w.sessions > 0 {
		names = append(names, "session")
	}
	if len(names) == 0 {
		return
	}
	name := rapid.SampledFrom(names).Draw(w.t, "next")
	switch finish := w.pending[name]; {
	case finish != nil:
		delete(w.pending, name)
		w.event(finish())
	case name == "session":
		w.sessions--
		w.event(SessionEnded{})
	default:
		timer := Timer(name[len("timer "):])
		delete(w.timers, timer)
		w.event(TimerFired{timer})
	}
}

func TestStepKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.event(Started{})
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			w.progress()
			if n := len(w.state.Running) + len(w.state.Results); n > maxOpen {
				t.Fatalf("%d open tasks", n)
			}
			if len(w.state.Recent) > maxRecent {
				t.Fatalf("%d results are remembered", len(w.state.Recent))
			}
			if len(w.pending)+len(w.timers) == 0 {
				t.Fatal("nothing is in flight and no timer is set: the agent is dead")
			}
		}
		w.event(Shutdown{})
		for n := 0; !w.exited; n++ {
			if n > 500 {
				t.Fatal("it does not end")
			}
			w.progress()
		}
		w.event(TimerFired{TimerHeartbeat})
		w.event(WaitDone{Task: signed("late", nil)})
		w.accounts()
	})
}

// accounts checks that every accepted task got exactly one result: delivered, dropped with a record, or still held
// when the agent had to stop.
func (w *world) accounts() {
	held := map[string]int{}
	for _, id := range w.state.Running {
		held[id]++
	}
	for _, r := range w.state.Results {
		held[r.TaskID]++
	}
	for id, n := range w.taken {
		switch results := w.posted[id] + w.dropped[id] + held[id]; {
		case results == 0:
			w.t.Fatalf("task %s has no result", id)
		case results > n:
			w.t.Fatalf("task %s was handed out %d times and has %d results", id, n, results)
		}
	}
}
