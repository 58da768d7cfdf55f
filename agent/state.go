package agent

import (
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Limits on what the agent keeps in memory.
const (
	// maxOpen bounds running tasks plus undelivered results. At the bound the agent takes no further task: it
	// accepts no work whose result it could not keep.
	maxOpen = 32
	// maxPosts bounds concurrent result posts once the platform has taken one: each post costs a full round trip.
	maxPosts = 8
	// maxRecent is the number of finished results that are kept so that a task that is delivered twice is not
	// executed twice. It covers every task that can be open at once, since a platform that lost those results
	// delivers all of them again.
	maxRecent = maxOpen
)

// Phase is a step of the agent's start-up and exit.
type Phase string

// The phases, in order.
const (
	PhaseNew      Phase = ""
	PhaseIdentity Phase = "identity" // no usable credentials yet
	PhaseGate     Phase = "gate"     // one heartbeat first: the platform learns of this boot before the agent takes work
	PhaseServing  Phase = "serving"
	PhaseStopping Phase = "stopping"
	PhaseExited   Phase = "exited"
)

// State is the input of every decision of Step. It is a value: Step never changes anything that its argument
// refers to.
type State struct {
	Phase     Phase
	NodeID    string
	Interval  time.Duration // between heartbeats
	Grace     time.Duration // time that a stop allows work in progress
	APIURL    string        // that this agent runs with
	Profile   string        // environment profile as configured, "" when not configured
	Verifiers wire.Verifiers
	Hold      string // why this node takes no work until it is bootstrapped again

	Identity, Heartbeat, Wait, Post Loop

	Running  []string     // ids of tasks being executed
	Sessions int          // terminal sessions that outlive their finished task
	Results  []PostResult // to be delivered, in turn
	Posting  []string     // ids of tasks whose results are being posted
	Recent   []PostResult // done with, oldest first

	// The findings of the last self-check, and the decisions that they led to.
	Material Material
	Files    string   // as of that look
	Fresh    bool     // it differs from the previous one: operations in back-off may retry at once
	Unusable bool     // the credential cannot be used: no request is sent with it
	Observed Observed // findings that were recorded already
	Damaged  string   // Files at the first self-check that found them damaged
	FellBack bool     // an older generation was activated since the last good self-check

	// What the platform's responses show about the identity.
	Rejections int           // refusals of it since the last success
	RefusedAt  time.Duration // the first of them
	Rejected   Outcome       // why another enrollment is needed, no reason if it is not
	EnrolledAt time.Duration // when the newest certificate came
	Renew      bool          // do not renew until the platform has accepted this certificate
	Detour     bool          // the last enrollment reached no listener: the next one uses the other path
	Ledger     Ledger

	Skew          time.Duration // the platform's clock minus this one, at SkewAt and SkewWall
	SkewAt        time.Duration // when it was measured
	SkewWall      time.Time     // this clock's wall time at that moment
	SkewKnown     bool
	SkewAsked     bool // do not ask for the time again until an enrollment has reached no listener
	DatesDoubtful bool // by this clock, the platform's own certificate is outside its dates as well
	Skewed        bool // a wrong clock was recorded

	Challenge string // of the newest heartbeat response; kept in memory only, so that a copy of this disk lacks it
	Prompt    bool   // the heartbeat in progress is an immediate echo

	Counters Counters
	Said     Counters         // as of the last summary line
	Kept     RecoveryCounters // as of the last time that the ledger was saved
}

// Observed holds the oddities of the last self-check, so that each is recorded once.
type Observed struct{ Drift, Issuer, Ending, Cause, Denied string }

// revoked reports whether the platform last reported this node's identity as revoked, retired or fenced.
func (s *State) revoked() bool {
	return s.Heartbeat.Failing == diag.RecIdentityRevoked || s.Wait.Failing == diag.RecIdentityRevoked ||
		s.Identity.Failing == diag.RecIdentityRevoked
}

// denied reports whether this node's identity was revoked or is in doubt, pending an operator's decision.
func (s *State) denied() bool { return s.Ledger.Quarantined.Active() || s.Observed.Denied != "" }

// Posture is the node's state as package wire names it.
func (s *State) Posture() string {
	switch {
	case s.Ledger.Quarantined.Active():
		return wire.PostureQuarantined
	case s.revoked(), s.Hold != "":
		return wire.PostureStopped
	case s.Unusable, !s.Rejected.OK(), s.Ledger.Suppressed.Active():
		return wire.PostureRecovering
	}
	return wire.PostureServing
}

// counters returns the counters of this process and the persistent ones, by wire name.
func (s *State) counters() map[string]int64 {
	m, c := s.Counters.Map(), s.Ledger.Counters
	m["identity_rejections"], m["enrollment_attempts"], m["enrollment_successes"] = c.Rejections, c.Attempts, c.Successes
	m["enrollment_failures"], m["enrollment_suppressed"] = c.Failures, c.Suppressed
	return m
}

// Loop is an operation that the agent repeats.
type Loop struct {
	InFlight bool
	Armed    bool          // a timer will start the next round
	Began    time.Duration // of the round in flight
	Failing  diag.RecordReason
	// a success was recorded since the start and since the last failure; used by the post loop only
	Reported bool
	Since    time.Duration // when the current failure began
	Backoff  Backoff
}

// Counters count since the start; the identity's counters are in the ledger.
type Counters struct {
	Heartbeats, HeartbeatFailures int64
	Polls, PollFailures           int64
	Tasks, TasksFailed, Refused   int64
	ResultsPosted, ResultFailures int64
	Sessions                      int64
}

// Map returns the counters of this process by wire name.
func (c Counters) Map() map[string]int64 {
	return map[string]int64{
		"heartbeats": c.Heartbeats, "heartbeat_failures": c.HeartbeatFailures,
		"task_polls": c.Polls, "task_poll_failures": c.PollFailures,
		"tasks": c.Tasks, "tasks_failed": c.TasksFailed, "tasks_refused": c.Refused,
		"results_posted": c.ResultsPosted, "result_post_failures": c.ResultFailures,
		"terminal_sessions": c.Sessions,
	}
}
