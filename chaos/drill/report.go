package drill

import (
	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// ReportKind is the kind field of a Report document.
const ReportKind = "DrillReport"

// Report is the document about one or several drills that ran one after the other.
type Report struct {
	diag.Head

	// of the tool that ran the drills; absent if they differ or the logs lack it
	ToolVersion string       `json:"tool_version,omitempty"`
	RenderedBy  string       `json:"rendered_by,omitempty"` // version of the tool that made this report from logs
	Profile     string       `json:"profile,omitempty"`
	Game        *Game        `json:"book,omitempty"`
	StartedAt   diag.Time    `json:"started_at"`
	EndedAt     diag.Time    `json:"ended_at,omitzero"`
	EndedBy     diag.EndedBy `json:"ended_by"` // completed | interrupted | internal_error
	Verdict     Verdict      `json:"verdict"`  // the worst of the drills'
	Drills      []Drill      `json:"drills"`
	NotRun      []string     `json:"not_run,omitempty"` // drills that were still to be run when it ended
}

// Game describes how the drills were drawn from a game day. The same file and seed give the same order.
type Game struct {
	ID    string   `json:"id"`
	Title string   `json:"title,omitempty"`
	Seed  uint64   `json:"seed"`
	Order []string `json:"order"`
}

// Drill is the outcome of one run.
type Drill struct {
	Run  string `json:"run"`
	Tool string `json:"tool_version,omitempty"` // of the tool that ran it; absent if its log lacks it
	// version of the rules that judged its walks; absent if its log lacks it
	Rules      string    `json:"rules_version,omitempty"`
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
	Log        string    `json:"log,omitempty"` // folder with its events and walks, on the tool's machine

	Verdict  Verdict  `json:"verdict"`
	Claims   []Claim  `json:"claims"`
	Expected Expected `json:"expected"`
	// the walk that detected the fault, else the last one during the fault
	Observed *WalkView       `json:"observed,omitempty"`
	Inject   Timing          `json:"inject"`
	Detect   Timing          `json:"detect"`
	Recover  Timing          `json:"recover"`
	Machines []MachineResult `json:"machines"`
	Looks    []Seen          `json:"looks,omitempty"`
	// all walks; only Observed has evidence, read model and the agent's records
	Walks    []WalkView `json:"walks,omitempty"`
	Evidence []string   `json:"evidence,omitempty"` // what the scenario recommends to inspect
	Trouble  []string   `json:"trouble,omitempty"`
}

// Expected is the scenario's expectation, in words.
type Expected struct {
	Blame          string            `json:"blame"`
	Others         []string          `json:"others,omitempty"`
	Reason         []diag.ReasonCode `json:"reason,omitempty"`
	FirstFailedHop []diag.HopID      `json:"first_failed_hop,omitempty"`
	MustStayGreen  []diag.HopID      `json:"must_stay_green,omitempty"`
	// hops that the environment has not, of those that must stay green
	NotMeasured []chaos.AbsentHop `json:"not_measured,omitempty"`
}

// State is the state of a claim.
type State string

// The states of a claim. NotSeen is neither held nor violated, and prevents a pass. NotApplicable is about something
// that the environment has not, as its profile says, and prevents nothing.
const (
	Held          State = "held"
	Violated      State = "violated"
	NotSeen       State = "not_seen"
	NotApplicable State = "not_applicable"
)

// Claim is one statement that a passing drill has proved.
type Claim struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	State State  `json:"state"`
	Word  Word   `json:"word,omitempty"` // the verdict that it causes if it is not held
	Text  string `json:"text,omitempty"`
	// State is not_seen, and that prevents nothing: readers of v1 know three states.
	NotApplicable bool `json:"not_applicable,omitempty"`
}

// Outcome is the state, NotApplicable included.
func (c *Claim) Outcome() State {
	if c.NotApplicable {
		return NotApplicable
	}
	return c.State
}

// MachineResult is the outcome of a drill on one machine.
type MachineResult struct {
	ID       string            `json:"id"`
	Role     chaos.Role        `json:"role"`
	Tier     string            `json:"tier"`
	Armed    bool              `json:"armed"`
	State    step.State        `json:"state,omitempty"` // as last reported by the machine
	Why      string            `json:"why,omitempty"`   // it reverted itself
	Reverter string            `json:"reverter,omitempty"`
	UndoUS   int64             `json:"undo_us,omitempty"` // duration of the undo on the machine, in microseconds
	Steps    []step.StepStatus `json:"steps,omitempty"`
	Residue  []step.Residue    `json:"residue,omitempty"` // including allowed differences
	Clean    *bool             `json:"clean,omitempty"`   // compared with the state before; absent: not compared
	Closed   bool              `json:"closed"`            // the drill's own artifacts are removed
	Journal  []step.Entry      `json:"journal,omitempty"`
}
