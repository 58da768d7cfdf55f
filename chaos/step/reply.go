package step

import (
	"encoding/json"
	"fmt"
	"time"
)

// ReplySchema is the version of what gpuaas-fault prints.
const ReplySchema = "gpuaas.drill-reply/v1"

// State is how far a change, a step, or a whole drill is.
type State string

// The states, in the order in which a change goes through them.
const (
	Planned   State = "planned"   // its undo is in the journal; nothing is touched
	Intent    State = "intent"    // about to be made, so it may be made
	Done      State = "done"      // made
	Verified  State = "verified"  // and seen to have its effect (steps only)
	Reverting State = "reverting" // about to be reverted
	Reverted  State = "reverted"  // as before; looked at, not assumed
	Lost      State = "lost"      // as before, and not by this drill: it ended by itself, or another process ended it
	Conflict  State = "conflict"  // the place is neither as before nor as injected: left alone
	Failed    State = "error"     // could not be reverted yet; tried again
)

// Over reports whether nothing is left to be done about it.
func (s State) Over() bool { return s == Reverted || s == Lost || s == Conflict }

// Who did something: it is in the journal with every entry.
const (
	ByCLI      = "cli"      // the operator's tool, over SSH
	ByWatchdog = "watchdog" // on a deadline, or because what it held was lost
	ByReaper   = "reaper"   // at boot
	ByNextRun  = "next-run" // another drill, which found this one over
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
	Change *int      `json:"change,omitempty"` // its number in the step; absent: the whole step, or the drill
	State  State     `json:"state,omitempty"`
	Text   string    `json:"text,omitempty"`
	// what undo needs: how the place looked before, how it looked once changed
	Note json.RawMessage `json:"note,omitempty"`
}

// Events of entries.
const (
	EventDrill   = "drill"   // the drill itself is the note; always the first
	EventPlanned = "planned" // a change, with how its place looks now
	EventArmed   = "armed"   // everything is in the journal, and the reaper is in place
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

// Refuse makes one.
func Refuse(code, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// Codes of refusals.
const (
	RefusedDrill       = "drill_invalid"
	RefusedConsent     = "no_consent"        // no consent file, or one that cannot be trusted
	RefusedExpired     = "consent_expired"   // it was given until an earlier time
	RefusedNode        = "wrong_node"        // it was given for another node
	RefusedDisposable  = "not_disposable"    // the owner did not allow that this machine may be lost
	RefusedLocked      = "locked"            // another drill is on it
	RefusedClock       = "clock"             // this machine's clock and the runner's differ too much to judge an expiry
	RefusedTools       = "tools_missing"     // a program that undo needs
	RefusedOperator    = "cuts_operator"     // a block would cut the operator's own connection
	RefusedUnsupported = "unsupported"       // the kernel or the machine cannot do it
	RefusedState       = "wrong_state"       // not now: the drill is not armed, over, or not yet reverted
	RefusedNone        = "no_drill"          // this machine has no drill
	RefusedBusy        = "busy"              // another process of this drill is at work
	RefusedCheck       = "effect_not_seen"   // a step was made, and its checks do not hold
	RefusedGuard       = "watchdog_not_seen" // the watchdog did not come up, so nothing is armed
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

// Status is a drill as its journal has it.
type Status struct {
	Run      string `json:"run"`
	Scenario string `json:"scenario"`
	Node     string `json:"node"`
	By       string `json:"by"`
	// planned, done (something is injected), reverting, reverted, conflict, error
	State     State        `json:"state"`
	Phase     string       `json:"phase"`         // arming | armed | reverting | over | closed
	Why       string       `json:"why,omitempty"` // of the revert: asked, ttl, lease, reboot, holder lost...
	Reverter  string       `json:"reverter"`      // who reverted; "" while not reverted
	ArmedAt   *time.Time   `json:"armed_at,omitempty"`
	TTLLeft   *Millis      `json:"ttl_left_ms,omitempty"`   // while armed
	LeaseLeft *Millis      `json:"lease_left_ms,omitempty"` // while armed
	Watchdog  int          `json:"watchdog,omitempty"`      // pid, while it runs
	Reaper    bool         `json:"reaper"`                  // its unit is in place
	Steps     []StepStatus `json:"steps"`
	Torn      int          `json:"torn,omitempty"` // blocks of the journal that were not wholly written
	Journal   []Entry      `json:"journal,omitempty"`
}

// StepStatus is one step of it.
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
	By    string `json:"by,omitempty"` // who brought it into this state
}
