package agent

import (
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// Limits of the agent's own memory.
const (
	// maxOpen bounds tasks that run plus results that wait to be delivered. At the bound the agent takes no further
	// task: it accepts no work whose result it cannot keep.
	maxOpen = 32
	// maxRecent is how many results are remembered that are done with, so that a task that is handed out twice is not
	// executed twice.
	maxRecent = 16
)

// Phase is how far the agent has come.
type Phase string

// The phases, in order.
const (
	PhaseNew      Phase = ""
	PhaseIdentity Phase = "identity" // no usable credentials yet
	PhaseGate     Phase = "gate"     // one heartbeat first: the platform hears of this boot before any work is taken
	PhaseServing  Phase = "serving"
	PhaseStopping Phase = "stopping"
	PhaseExited   Phase = "exited"
)

// State is everything that Step decides by. It is a value: Step never changes what its argument refers to.
type State struct {
	Phase     Phase
	NodeID    string
	Interval  time.Duration // between heartbeats
	HasToken  bool
	Verifiers wire.Verifiers

	Identity, Heartbeat, Wait, Post Loop

	Running  []string     // ids of tasks being executed
	Sessions int          // terminal sessions that go on behind a finished task
	Results  []PostResult // to be delivered, in turn
	Recent   []PostResult // done with, oldest first

	Skewed   bool
	Counters Counters
	Said     Counters // as of the last summary line
}

// Loop is one thing that the agent does again and again.
type Loop struct {
	InFlight bool
	Armed    bool          // a timer will begin the next round
	Began    time.Duration // of the round in flight
	Failing  diag.RecordReason
	Backoff  Backoff
}

// Counters since the start.
type Counters struct {
	Heartbeats, HeartbeatFailures   int64
	Polls, PollFailures             int64
	Tasks, TasksFailed, Refused     int64
	ResultsPosted, ResultFailures   int64
	Enrollments, EnrollmentFailures int64
	IdentityRejections              int64
	Sessions                        int64
}

// Map gives the counters by wire name.
func (c Counters) Map() map[string]int64 {
	return map[string]int64{
		"heartbeats": c.Heartbeats, "heartbeat_failures": c.HeartbeatFailures,
		"task_polls": c.Polls, "task_poll_failures": c.PollFailures,
		"tasks": c.Tasks, "tasks_failed": c.TasksFailed, "tasks_refused": c.Refused,
		"results_posted": c.ResultsPosted, "result_post_failures": c.ResultFailures,
		"enrollments": c.Enrollments, "enrollment_failures": c.EnrollmentFailures,
		"identity_rejections": c.IdentityRejections, "terminal_sessions": c.Sessions,
	}
}
