package agent

import (
	"log/slog"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/wire"
)

// Event is something that happened, with the time and the random draw that the runtime stamps on it.
type Event struct {
	At   time.Duration // monotonic, since the agent started
	Wall time.Time
	Roll float64 // uniform in [0,1), for jitter
	// Files changes when one of the files that a self-check looks at does; "" when that was not looked at.
	Files string
	What  What
}

// What is one of the event types below.
type What interface{ event() }

// The events.
type (
	// Started begins everything.
	Started struct{}
	// IdentityChecked is what a self-check found.
	IdentityChecked struct{ Material Material }
	// ClockAsked is the outcome of asking for the platform's time.
	ClockAsked struct{ Outcome Outcome }
	// FellBack is the outcome of putting an older generation in a damaged one's place.
	FellBack struct{ Outcome Outcome }
	// EnrollDone is the outcome of an enrollment. Room means that a full disk took it only with the reserve's help.
	EnrollDone struct {
		Outcome Outcome
		Room    bool
	}
	// HeartbeatDone is the outcome of a heartbeat. Skew is the platform's clock minus this one, 0 when unknown.
	// Challenge is what the answer gives to echo, "" for nothing; EchoNow asks for that at once.
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
		More    []wire.Task // that the same answer brought
	}
	// TaskFinished carries a task's result. Session means that a terminal session goes on behind it.
	TaskFinished struct {
		TaskID, Correlation string
		Result              wire.TaskResult
		Reason              diag.RecordReason // why it failed, where the record has a word for it
		Session             bool
		Elsewhere           bool      // its result is reported by another process
		Note                *Decision // what the task changed on this node, for the record
	}
	// SessionEnded ends the session of a finished terminal.open.
	SessionEnded struct {
		TaskID, Correlation, Why string
		Lasted                   time.Duration
	}
	// ResultPosted is the outcome of posting a result.
	ResultPosted struct {
		TaskID  string
		Outcome Outcome
	}
	// TimerFired is a timer that was set.
	TimerFired struct{ Timer Timer }
	// Shutdown asks the agent to end.
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
	TimerRenew     Timer = "renew" // the certificate comes near its end
	TimerHeartbeat Timer = "heartbeat"
	TimerWait      Timer = "task_wait"
	TimerPost      Timer = "task_result"
	TimerSummary   Timer = "summary"
	TimerGrace     Timer = "grace"
)

// Effect is something to be done, in the order in which Step returned it. Record, Log, SaveLedger and
// WriteMetrics are done before the next one is begun; the others run on their own and come back as events.
type Effect interface{ effect() }

// The effects.
type (
	// CheckIdentity looks at the credentials on disk; IdentityChecked follows.
	CheckIdentity struct{}
	// AskClock asks the platform for nothing but its time; ClockAsked follows.
	AskClock struct{}
	// FallBack puts the newest good generation in the place of a damaged one; FellBack follows.
	FallBack struct{}
	// Enroll writes the ledger down and then asks for a certificate with the token, by the recovery path or the
	// runtime's; EnrollDone follows. An attempt that cannot be written down is not made.
	Enroll struct {
		Ledger   Ledger
		Recovery bool
		Profile  string
	}
	// SaveLedger keeps the ledger. Counts means that nothing else is new in it, which is not worth the reserve.
	SaveLedger struct {
		Ledger Ledger
		Counts bool
	}
	// WriteMetrics shows the counters to node_exporter.
	WriteMetrics struct {
		Posture  string
		Counters map[string]int64
	}
	// SendHeartbeat reports this node; HeartbeatDone follows.
	SendHeartbeat struct {
		Counters         map[string]int64
		Posture, Profile string
		Challenge        string // of the newest answer to one, "" for none
	}
	// WaitTask is one long poll for at most so many tasks; WaitDone follows.
	WaitTask struct{ Most int }
	// RunTask executes a verified task; TaskFinished follows, and SessionEnded where a session goes on.
	RunTask struct{ Task wire.Task }
	// PostResult delivers a result; ResultPosted follows.
	PostResult struct {
		TaskID, Correlation string
		Result              wire.TaskResult
	}
	// SetTimer makes TimerFired happen.
	SetTimer struct {
		Timer Timer
		In    time.Duration
	}
	// Record keeps a decision.
	Record struct{ Decision Decision }
	// Log is a line of the operational log.
	Log struct {
		Level   slog.Level
		Message string
		Attrs   []slog.Attr
	}
	// EndSessions ends every terminal session, for a reason of wire.End*; a SessionEnded follows for each.
	EndSessions struct{ Why string }
	// CancelWork aborts what is under way: waits, heartbeats, tasks, sessions. Their events still come.
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
