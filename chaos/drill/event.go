package drill

import (
	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Kind is the type of an event.
type Kind string

// The kinds, in the order of a successful run. An event that announces an action is written before the action.
const (
	Begun     Kind = "begun"     // Plan, without its secrets; Tool and Rules; Game, if the run belongs to a game day
	Refused   Kind = "refused"   // Refused: no machine may be touched
	Walked    Kind = "walked"    // WalkView
	Arming    Kind = "arming"    // a machine is about to be made ready
	Armed     Kind = "armed"     // Status, as seen over a second connection
	Breaking  Kind = "breaking"  // a step is about to be made
	Broken    Kind = "broken"    // Status: a step was made; Text is the error
	Renewed   Kind = "renewed"   // Status: a machine's lease was renewed
	Probed    Kind = "looked"    // Seen
	Lost      Kind = "lost"      // Status: a machine reverted itself before it was asked to
	Stopped   Kind = "stopped"   // Text: a guard ends the run early
	Interrupt Kind = "interrupt" // Text: the operator does
	Reverting Kind = "reverting" // a machine is about to be asked to revert
	Reverted  Kind = "reverted"  // Status
	Decided   Kind = "decided"   // the platform's API was called; Text is the error
	Compared  Kind = "compared"  // Clean, Residue
	Closed    Kind = "closed"    // Status with the whole journal; Text is the error
	Trouble   Kind = "trouble"   // Text: a failure that the drill is not about
	Ended     Kind = "ended"
)

// Event is one event of a run.
type Event struct {
	Seq     int         `json:"seq"` // from 1, without gaps
	At      diag.Time   `json:"at"`  // the operator's clock
	MS      int64       `json:"ms"`  // since the run began, by a monotonic clock
	Kind    Kind        `json:"event"`
	Machine string      `json:"machine,omitempty"`
	Step    string      `json:"step,omitempty"`
	Text    string      `json:"text,omitempty"`
	Plan    *chaos.Plan `json:"plan,omitempty"`
	// of the tool that runs the drill; absent in logs of older tools
	Tool string `json:"tool_version,omitempty"`
	// version of the rules that judge its walks; absent in logs of older tools
	Rules    string          `json:"rules_version,omitempty"`
	Game     *Game           `json:"book,omitempty"`
	Refused  []chaos.Refusal `json:"refused,omitempty"`
	WalkView *WalkView       `json:"sight,omitempty"`
	Seen     *Seen           `json:"seen,omitempty"`
	Status   *step.Status    `json:"status,omitempty"`
	Residue  []step.Residue  `json:"residue,omitempty"`
	Clean    *bool           `json:"clean,omitempty"`
	TookUS   int64           `json:"took_us,omitempty"` // time on the machine until the response in Status

	walk *diag.Report // the report of WalkView, until it is logged
}

// Stage is the part of a run in which a walk or probe ran.
type Stage string

// The stages.
const (
	Before Stage = "before" // nothing is touched
	During Stage = "during" // from the first step to the first undo
	After  Stage = "after"  // everything is reverted
)

// Seen is the result of an independent probe.
type Seen struct {
	Name   string      `json:"name"` // injected | control | recovered
	Stage  Stage       `json:"stage"`
	Held   bool        `json:"held"`
	NotRun bool        `json:"not_run,omitempty"` // the tool could not run, so the probe proves nothing
	Why    string      `json:"why,omitempty"`     // it did not hold
	TookMS diag.Millis `json:"took_ms"`           // until it gave the wanted result or timed out
}
