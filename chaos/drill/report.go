package drill

import (
	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// ReportKind is the kind of document that a Report is.
const ReportKind = "DrillReport"

// Report is the document of one or several drills that were run one after the other.
type Report struct {
	diag.Head

	// of the tool that ran the drills; absent where they differ or their logs lack it
	ToolVersion string       `json:"tool_version,omitempty"`
	RenderedBy  string       `json:"rendered_by,omitempty"` // version of the tool that made this report from logs of runs
	Profile     string       `json:"profile,omitempty"`
	Game        *Game        `json:"book,omitempty"`
	StartedAt   diag.Time    `json:"started_at"`
	EndedAt     diag.Time    `json:"ended_at,omitzero"`
	EndedBy     diag.EndedBy `json:"ended_by"` // completed | interrupted | internal_error
	Verdict     Verdict      `json:"verdict"`  // the worst of the drills'
	Drills      []Drill      `json:"drills"`
	NotRun      []string     `json:"not_run,omitempty"` // drills that were to come when it ended
}

// Game is how the drills were drawn from a game day. The same file and seed give the same order.
type Game struct {
	ID    string   `json:"id"`
	Title string   `json:"title,omitempty"`
	Seed  uint64   `json:"seed"`
	Order []string `json:"order"`
}

// Drill is what came of one run.
type Drill struct {
	Run        string    `json:"run"`
	Tool       string    `json:"tool_version,omitempty"`  // of the tool that ran it; absent where its log lacks it
	Rules      string    `json:"rules_version,omitempty"` // by which its walks were judged; absent where its log lacks it
	Scenario   string    `json:"scenario"`
	Title      string    `json:"title"`
	Severity   string    `json:"severity"`
	Owner      string    `json:"owner"`
	Runbook    string    `json:"runbook"`
	Node       string    `json:"node"`
	Allocation string    `json:"allocation_id,omitempty"`
	PlanHash   string    `json:"plan_hash"`
	StartedAt  diag.Time `json:"started_at"`
	EndedAt    diag.Time `json:"ended_at,omitzero"` // absent: the run was killed
	DurationMS int64     `json:"duration_ms"`
	Log        string    `json:"log,omitempty"` // folder of its events and walks on the machine of the tool

	Verdict  Verdict  `json:"verdict"`
	Claims   []Claim  `json:"claims"`
	Expected Expected `json:"expected"`
	// the walk that reported it, else the last one while the fault was there
	Observed *Sight          `json:"observed,omitempty"`
	Inject   Timing          `json:"inject"`
	Detect   Timing          `json:"detect"`
	Recover  Timing          `json:"recover"`
	Machines []MachineResult `json:"machines"`
	Looks    []Seen          `json:"looks,omitempty"`
	// every one; evidence, read model and the agent's records are Observed's alone
	Walks    []Sight  `json:"walks,omitempty"`
	Evidence []string `json:"evidence,omitempty"` // what the scenario names to inspect
	Trouble  []string `json:"trouble,omitempty"`
}

// Expected is what the scenario wants, in words.
type Expected struct {
	Blame          string            `json:"blame"`
	Others         []string          `json:"others,omitempty"`
	Reason         []diag.ReasonCode `json:"reason,omitempty"`
	FirstFailedHop []diag.HopID      `json:"first_failed_hop,omitempty"`
	MustStayGreen  []diag.HopID      `json:"must_stay_green,omitempty"`
}

// State is the state of a claim.
type State string

// The states of a claim. One that was not seen is neither held nor violated, and no pass.
const (
	Held     State = "held"
	Violated State = "violated"
	NotSeen  State = "not_seen"
)

// Claim is one thing that a drill that passes has shown.
type Claim struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	State State  `json:"state"`
	Word  Word   `json:"word,omitempty"` // the verdict that it makes, where it is not held
	Text  string `json:"text,omitempty"`
}

// MachineResult is what was done on one machine.
type MachineResult struct {
	ID       string            `json:"id"`
	Role     chaos.Role        `json:"role"`
	Tier     string            `json:"tier"`
	Armed    bool              `json:"armed"`
	State    step.State        `json:"state,omitempty"` // as the machine last reported
	Why      string            `json:"why,omitempty"`   // it reverted itself
	Reverter string            `json:"reverter,omitempty"`
	UndoUS   int64             `json:"undo_us,omitempty"` // microseconds that the undo took there
	Steps    []step.StepStatus `json:"steps,omitempty"`
	Residue  []step.Residue    `json:"residue,omitempty"` // with the differences that are allowed
	Clean    *bool             `json:"clean,omitempty"`   // compared with before; absent: it was not compared
	Closed   bool              `json:"closed"`            // the drill's own traces are gone
	Journal  []step.Entry      `json:"journal,omitempty"`
}
