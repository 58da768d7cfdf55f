package drill

import (
	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// Kind is what happened.
type Kind string

// The kinds, in the order of a run that goes well. What is "about to" happen is written down before it does.
const (
	Begun     Kind = "begun"     // Plan, without its secrets; Tool and Rules; Game, where it is of a game day
	Refused   Kind = "refused"   // Refused: nothing may be touched
	Walked    Kind = "walked"    // Sight
	Arming    Kind = "arming"    // a machine is about to be made ready
	Armed     Kind = "armed"     // Status, as a connection of its own saw it
	Breaking  Kind = "breaking"  // a step is about to be made
	Broken    Kind = "broken"    // Status: a step is made; Text is the error
	Renewed   Kind = "renewed"   // Status: a machine's lease was renewed
	Looked    Kind = "looked"    // Seen
	Lost      Kind = "lost"      // Status: a machine reverted itself before it was asked
	Stopped   Kind = "stopped"   // Text: a guard ends the run before its time
	Interrupt Kind = "interrupt" // Text: the operator does
	Reverting Kind = "reverting" // a machine is about to be asked to revert everything
	Reverted  Kind = "reverted"  // Status
	Decided   Kind = "decided"   // the platform was called; Text is the error
	Compared  Kind = "compared"  // Clean, Residue
	Closed    Kind = "closed"    // Status with the whole journal; Text is the error
	Trouble   Kind = "trouble"   // Text: something that a drill is not about did not work
	Ended     Kind = "ended"
)

// Event is one thing that happened in a run.
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
	// by which its walks are judged; absent in logs of older tools
	Rules   string          `json:"rules_version,omitempty"`
	Game    *Game           `json:"book,omitempty"`
	Refused []chaos.Refusal `json:"refused,omitempty"`
	Sight   *Sight          `json:"sight,omitempty"`
	Seen    *Seen           `json:"seen,omitempty"`
	Status  *step.Status    `json:"status,omitempty"`
	Residue []step.Residue  `json:"residue,omitempty"`
	Clean   *bool           `json:"clean,omitempty"`
	TookUS  int64           `json:"took_us,omitempty"` // on the machine, of what Status is the answer to

	walk *diag.Report // of Sight, on its way to the log
}

// Stage is the part of a run in which a walk was made.
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
	NotRun bool        `json:"not_run,omitempty"` // the tool could not be run, so nothing was seen
	Why    string      `json:"why,omitempty"`     // it did not hold
	TookMS diag.Millis `json:"took_ms"`           // until it gave what was wanted, or was given up
}
