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
	// maxPosts bounds results under way at once, once one was taken: each costs the whole way to the platform and back.
	maxPosts = 8
	// maxRecent is how many results are remembered that are done with, so that a task that is handed out twice is not
	// executed twice: all that can be open at once, which a platform that lost them hands out again together.
	maxRecent = maxOpen
)

// Phase is how far the agent has come.
type Phase string

// The phases, in order.
const (
	PhaseNew      Phase = ""
	PhaseIdentity Phase = "identity" // no usable credentials yet
	PhaseGate     Phase = "gate"     // one heartbeat first: the platform learns of this boot before any work is taken
	PhaseServing  Phase = "serving"
	PhaseStopping Phase = "stopping"
	PhaseExited   Phase = "exited"
)

// State is everything that Step decides by. It is a value: Step never changes what its argument refers to.
type State struct {
	Phase     Phase
	NodeID    string
	Interval  time.Duration // between heartbeats
	Grace     time.Duration // what a stop leaves to what is under way
	APIURL    string        // that this agent runs with
	Profile   string        // environment profile as configured, "" when not configured
	Verifiers wire.Verifiers
	Hold      string // why no work is taken until this node is bootstrapped again

	Identity, Heartbeat, Wait, Post Loop

	Running  []string     // ids of tasks being executed
	Sessions int          // terminal sessions that go on behind a finished task
	Results  []PostResult // to be delivered, in turn
	Posting  []string     // tasks whose results are under way
	Recent   []PostResult // done with, oldest first

	// What the last self-check found, and what was made of it.
	Material Material
	Files    string   // as of that look
	Fresh    bool     // it differs from the one before: what waits for a back-off may try at once
	Unusable bool     // the credential cannot be used: nothing is asked under it
	Observed Observed // what was recorded once already
	Damaged  string   // Files as of the first look that found them damaged
	FellBack bool     // an older generation was put in place since the last good look

	// What the platform reports of the identity.
	Rejections int           // refusals of it since the last success
	RefusedAt  time.Duration // the first of them
	Rejected   Outcome       // what makes another enrollment necessary, no reason when nothing does
	EnrolledAt time.Duration // when the newest certificate came
	Renew      bool          // the next one waits for the platform's word that it takes this one
	Detour     bool          // the last enrollment reached no listener: the next one takes the other path
	Ledger     Ledger

	Skew          time.Duration // the platform's clock minus this one, as of the two next
	SkewAt        time.Duration // when it was measured
	SkewWall      time.Time     // this clock's reading then, without its monotonic reading
	SkewKnown     bool
	SkewAsked     bool // no second request for nothing but the time, until an enrollment has reached no listener
	DatesDoubtful bool // the platform's own certificate is outside its dates by this clock, too
	Skewed        bool // a wrong clock was recorded

	Challenge string // of the newest answer to a heartbeat; in memory only: a copy of this disk does not have it
	Prompt    bool   // the heartbeat under way echoes it at once

	Counters Counters
	Said     Counters         // as of the last summary line
	Kept     RecoveryCounters // as of the last time that the ledger was
}

// Observed is what was found odd at the last self-check, so that it is recorded once.
type Observed struct{ Drift, Issuer, Ending, Cause, Denied string }

// revoked reports whether the platform last reported that this node's identity is revoked, retired or fenced.
func (s *State) revoked() bool {
	return s.Heartbeat.Failing == diag.RecIdentityRevoked || s.Wait.Failing == diag.RecIdentityRevoked ||
		s.Identity.Failing == diag.RecIdentityRevoked
}

// denied reports whether this node's identity was taken from it, or is in doubt, until an operator has decided.
func (s *State) denied() bool { return s.Ledger.Quarantined.On() || s.Observed.Denied != "" }

// Posture is the node's state, in the words of package wire.
func (s *State) Posture() string {
	switch {
	case s.Ledger.Quarantined.On():
		return wire.PostureQuarantined
	case s.revoked(), s.Hold != "":
		return wire.PostureStopped
	case s.Unusable, !s.Rejected.OK(), s.Ledger.Suppressed.On():
		return wire.PostureRecovering
	}
	return wire.PostureServing
}

// counters are those of this process and those that outlive it, by wire name.
func (s *State) counters() map[string]int64 {
	m, c := s.Counters.Map(), s.Ledger.Counters
	m["identity_rejections"], m["enrollment_attempts"], m["enrollment_successes"] = c.Rejections, c.Attempts, c.Successes
	m["enrollment_failures"], m["enrollment_suppressed"] = c.Failures, c.Suppressed
	return m
}

// Loop is one thing that the agent does again and again.
type Loop struct {
	InFlight bool
	Armed    bool          // a timer will begin the next round
	Began    time.Duration // of the round in flight
	Failing  diag.RecordReason
	// the record has that it works, since the start and since it last failed; of the post loop alone
	Reported bool
	Since    time.Duration // when it began to fail for that reason
	Backoff  Backoff
}

// Counters since the start; those of the identity are in the ledger.
type Counters struct {
	Heartbeats, HeartbeatFailures int64
	Polls, PollFailures           int64
	Tasks, TasksFailed, Refused   int64
	ResultsPosted, ResultFailures int64
	Sessions                      int64
}

// Map gives the counters of this process by wire name.
func (c Counters) Map() map[string]int64 {
	return map[string]int64{
		"heartbeats": c.Heartbeats, "heartbeat_failures": c.HeartbeatFailures,
		"task_polls": c.Polls, "task_poll_failures": c.PollFailures,
		"tasks": c.Tasks, "tasks_failed": c.TasksFailed, "tasks_refused": c.Refused,
		"results_posted": c.ResultsPosted, "result_post_failures": c.ResultFailures,
		"terminal_sessions": c.Sessions,
	}
}
