package step

import (
	"encoding/json"
	"fmt"
	"time"
)

// ReplySchema is the version of gpuaas-fault's output.
const ReplySchema = "gpuaas.drill-reply/v1"

// State is the progress of a change, a step, or a whole drill.
type State string

// The states, in the order in which a change goes through them.
const (
	Planned   State = "planned"   // its undo is in the journal; nothing was touched
	Intent    State = "intent"    // about to be made, and may have been
	Done      State = "done"      // made
	Verified  State = "verified"  // its effect was seen as well (steps only)
	Reverting State = "reverting" // about to be reverted
	Reverted  State = "reverted"  // as before; checked and not assumed
	// as before, but not reverted by this drill: it ended by itself, or another process reverted it
	Lost     State = "lost"
	Conflict State = "conflict" // the place is neither as before nor as injected: left alone
	Failed   State = "error"    // could not be reverted yet; will be retried
)

// Final reports whether nothing is left to be done.
func (s State) Final() bool { return s == Reverted || s == Lost || s == Conflict }

// The process that did something, in every entry of the journal.
const (
	ByCLI      = "cli"      // the operator's tool, over SSH
	ByWatchdog = "watchdog" // at a deadline, or because what it held was lost
	ByReaper   = "reaper"   // at boot
	ByNextRun  = "next-run" // another drill, which found this one expired
)

// Entry is one entry of a machine's journal.
type Entry struct {
	Seq    int       `json:"seq"` // from 1, without gaps
	At     time.Time `json:"at"`
	Boot   string    `json:"boot"`    // boot id
	BootNS int64     `json:"boot_ns"` // CLOCK_BOOTTIME
	By     string    `json:"by"`
	PID    int       `json:"pid"`
	Event  string    `json:"event"`
	Step   string    `json:"step,omitempty"`
	// its number in the step; absent: the entry is about the whole step, or the drill
	Change *int   `json:"change,omitempty"`
	State  State  `json:"state,omitempty"`
	Text   string `json:"text,omitempty"`
	// input of the undo: the place's state before the change and after it
	Note json.RawMessage `json:"note,omitempty"`
}

// Events of entries.
const (
	EventDrill   = "drill"   // the note is the drill itself; always the first entry
	EventPlanned = "planned" // a change, with the current state of its place
	EventArmed   = "armed"   // everything is in the journal, and the reaper is installed
	EventGuard   = "guard"   // a watchdog keeps watch
	EventWanted  = "wanted"  // a step is asked for
	EventChange  = "change"  // a change has reached State
	EventVerify  = "verify"  // a step's checks were tried
	EventRevert  = "revert"  // everything is to be reverted; Text is the reason
	EventClean   = "clean"   // the fingerprint was compared
	EventClosed  = "closed"
)

// Refusal is why nothing was touched.
type Refusal struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Error makes a refusal an error.
func (r *Refusal) Error() string { return r.Code + ": " + r.Text }

// Refuse returns a Refusal.
func Refuse(code, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// Codes of refusals.
const (
	RefusedDrill       = "drill_invalid"
	RefusedConsent     = "no_consent"        // no consent file, or one that is not trusted
	RefusedExpired     = "consent_expired"   // the consent has expired
	RefusedNode        = "wrong_node"        // the consent is for another node
	RefusedDisposable  = "not_disposable"    // the owner does not allow the machine to be lost
	RefusedLocked      = "locked"            // another drill is on it
	RefusedClock       = "clock"             // this machine's clock and the runner's differ too much to judge an expiry
	RefusedTools       = "tools_missing"     // a program that undo needs
	RefusedOperator    = "cuts_operator"     // a block would cut the operator's own connection
	RefusedUnsupported = "unsupported"       // the kernel or the machine does not support it
	RefusedState       = "wrong_state"       // not now: the drill is not armed, over, or not reverted yet
	RefusedNone        = "no_drill"          // this machine has no drill
	RefusedBusy        = "busy"              // another process of this drill is active
	RefusedCheck       = "effect_not_seen"   // a step was made, but its checks fail
	RefusedGuard       = "watchdog_not_seen" // the watchdog did not start, so the drill is not armed
)

// ExitRefused is gpuaas-fault's exit code for a refusal. 0: done; 1: an error; 2: bad arguments.
const ExitRefused = 3

// Reply is the one JSON line that every command of gpuaas-fault prints.
type Reply struct {
	Schema  string    `json:"schema"`
	Version string    `json:"version"`
	Refused *Refusal  `json:"refused,omitempty"`
	Error   string    `json:"error,omitempty"`
	Status  *Status   `json:"status,omitempty"`  // of the drill, after the command
	Residue []Residue `json:"residue,omitempty"` // verify, residue
	Clean   *bool     `json:"clean,omitempty"`   // verify, residue: no difference but allowed ones
	TookUS  int64     `json:"took_us"`           // microseconds on the machine
}

// Status is a drill's state according to its journal.
type Status struct {
	Run      string `json:"run"`
	Scenario string `json:"scenario"`
	Node     string `json:"node"`
	By       string `json:"by"`
	// planned, done (something is injected), reverting, reverted, conflict, error
	State     State        `json:"state"`
	Phase     string       `json:"phase"`         // arming | armed | reverting | over | closed
	Why       string       `json:"why,omitempty"` // of the revert: asked, ttl, lease, reboot, holder lost...
	Reverter  string       `json:"reverter"`      // who reverted; "" if not reverted
	ArmedAt   *time.Time   `json:"armed_at,omitempty"`
	TTLLeft   *Millis      `json:"ttl_left_ms,omitempty"`   // while armed
	LeaseLeft *Millis      `json:"lease_left_ms,omitempty"` // while armed
	Watchdog  int          `json:"watchdog,omitempty"`      // pid, while it runs
	Reaper    bool         `json:"reaper"`                  // its unit is in place
	Steps     []StepStatus `json:"steps"`
	Torn      int          `json:"torn,omitempty"` // blocks of the journal that were not completely written
	Journal   []Entry      `json:"journal,omitempty"`
}

// StepStatus is the status of one step.
type StepStatus struct {
	ID      string         `json:"id"`
	Fault   string         `json:"fault"`
	Tier    string         `json:"tier"`
	State   State          `json:"state"` // the worst of its changes
	Text    string         `json:"text,omitempty"`
	Wanted  bool           `json:"wanted,omitempty"`
	DoneAt  *time.Time     `json:"done_at,omitempty"`
	OverAt  *time.Time     `json:"over_at,omitempty"`
	Changes []ChangeStatus `json:"changes"`
}

// ChangeStatus is one change of a step.
type ChangeStatus struct {
	Place string `json:"place"`
	State State  `json:"state"`
	Text  string `json:"text,omitempty"`
	By    string `json:"by,omitempty"` // who changed it to this state
}
