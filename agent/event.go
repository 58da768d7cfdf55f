package agent

import (
	"log/slog"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Event is an input of Step, with the time and the random draw that the runtime stamps on it.
type Event struct {
	At   time.Duration // monotonic, since the agent started
	Wall time.Time
	Roll float64 // uniform in [0,1), for jitter
	// Files changes when a file that a self-check inspects changes; "" if the files were not checked.
	Files string
	What  What
}

// What is one of the event types below.
type What interface{ event() }

// The events.
type (
	// Started is the first event.
	Started struct{}
	// IdentityChecked carries the findings of a self-check.
	IdentityChecked struct{ Material Material }
	// ClockAsked is the outcome of a request for the platform's time.
	ClockAsked struct{ Outcome Outcome }
	// FellBack is the outcome of replacing a damaged generation with an older one.
	FellBack struct{ Outcome Outcome }
	// EnrollDone is the outcome of an enrollment. Room means that the disk was full and the reserve was needed.
	EnrollDone struct {
		Outcome Outcome
		Room    bool
	}
	// HeartbeatDone is the outcome of a heartbeat. Skew is the platform's clock minus this one, 0 if unknown.
	// Challenge is the value to echo, "" for none; EchoNow asks for the echo at once.
	HeartbeatDone struct {
		Outcome   Outcome
		Skew      time.Duration
		Challenge string
		EchoNow   bool
	}
	// WaitDone ends a long poll: a task, none, or a failure.
	WaitDone struct {
		Outcome Outcome
		Task    *wire.Task
		More    []wire.Task // further tasks in the same response
	}
	// TaskFinished carries a task's result. Session means that a terminal session continues after the task.
	TaskFinished struct {
		TaskID, Correlation string
		Result              wire.TaskResult
		Reason              diag.RecordReason // why it failed, if the record has a reason for it
		Session             bool
		Elsewhere           bool      // another process reports its result
		Note                *Decision // what the task changed on this node, for the record
	}
	// SessionEnded reports the end of the session that a terminal.open started.
	SessionEnded struct {
		TaskID, Correlation, Why string
		Lasted                   time.Duration
	}
	// ResultPosted is the outcome of posting a result.
	ResultPosted struct {
		TaskID  string
		Outcome Outcome
	}
	// TimerFired reports that a timer has expired.
	TimerFired struct{ Timer Timer }
	// Shutdown asks the agent to exit.
	Shutdown struct{ Why string }
)

func (Started) event()         {}
func (IdentityChecked) event() {}
func (ClockAsked) event()      {}
func (FellBack) event()        {}
func (EnrollDone) event()      {}
func (HeartbeatDone) event()   {}
func (WaitDone) event()        {}
func (TaskFinished) event()    {}
func (SessionEnded) event()    {}
func (ResultPosted) event()    {}
func (TimerFired) event()      {}
func (Shutdown) event()        {}

// Timer names one of the agent's timers; setting it again replaces it.
type Timer string

// The timers.
const (
	TimerIdentity  Timer = "identity"
	TimerWatch     Timer = "watch" // has a file changed
	TimerRenew     Timer = "renew" // the certificate is close to its expiry
	TimerHeartbeat Timer = "heartbeat"
	TimerWait      Timer = "task_wait"
	TimerPost      Timer = "task_result"
	TimerSummary   Timer = "summary"
	TimerGrace     Timer = "grace"
)

// Effect is an action for the runtime, in the order in which Step returned it. Record, Log, SaveLedger and
// WriteMetrics complete before the next effect begins; the others run in the background and report back as events.
type Effect interface{ effect() }

// The effects.
type (
	// CheckIdentity inspects the credentials on disk; IdentityChecked follows.
	CheckIdentity struct{}
	// AskClock asks the platform only for its time; ClockAsked follows.
	AskClock struct{}
	// FallBack replaces a damaged generation with the newest good one; FellBack follows.
	FallBack struct{}
	// Enroll saves the ledger and then requests a certificate with the token, by the recovery path or the
	// runtime's; EnrollDone follows. If the ledger cannot be saved, no attempt is made.
	Enroll struct {
		Ledger   Ledger
		Recovery bool
		Profile  string
	}
	// SaveLedger stores the ledger. Counts means that only counters changed, which is not worth using the reserve.
	SaveLedger struct {
		Ledger Ledger
		Counts bool
	}
	// WriteMetrics writes the counters to node_exporter's textfile.
	WriteMetrics struct {
		Posture  string
		Counters map[string]int64
	}
	// SendHeartbeat sends a heartbeat; HeartbeatDone follows.
	SendHeartbeat struct {
		Counters         map[string]int64
		Posture, Profile string
		Challenge        string // of the newest heartbeat response, "" for none
	}
	// WaitTask is one long poll for at most Most tasks; WaitDone follows.
	WaitTask struct{ Most int }
	// RunTask executes a verified task; TaskFinished follows, and SessionEnded if a session continues.
	RunTask struct{ Task wire.Task }
	// PostResult delivers a result; ResultPosted follows.
	PostResult struct {
		TaskID, Correlation string
		Result              wire.TaskResult
	}
	// SetTimer schedules a TimerFired.
	SetTimer struct {
		Timer Timer
		In    time.Duration
	}
	// Record stores a decision.
	Record struct{ Decision Decision }
	// Log is a line of the operational log.
	Log struct {
		Level   slog.Level
		Message string
		Attrs   []slog.Attr
	}
	// EndSessions ends every terminal session, for a reason of wire.End*; a SessionEnded follows for each.
	EndSessions struct{ Why string }
	// CancelWork aborts waits, heartbeats, tasks and sessions in progress. Their events still follow.
	CancelWork struct{}
	// Exit is the last effect.
	Exit struct{}
)

func (CheckIdentity) effect() {}
func (AskClock) effect()      {}
func (FallBack) effect()      {}
func (Enroll) effect()        {}
func (SaveLedger) effect()    {}
func (WriteMetrics) effect()  {}
func (SendHeartbeat) effect() {}
func (WaitTask) effect()      {}
func (RunTask) effect()       {}
func (PostResult) effect()    {}
func (SetTimer) effect()      {}
func (Record) effect()        {}
func (Log) effect()           {}
func (EndSessions) effect()   {}
func (CancelWork) effect()    {}
func (Exit) effect()          {}
