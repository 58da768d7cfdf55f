package chaos

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// PlanKind is the kind field of a plan document.
const PlanKind = "ChaosPlan"

// Plan is everything that a run will do, computed in advance. It is a value: equal scenarios, profiles and facts
// give an equal plan.
type Plan struct {
	diag.Head

	Run string `json:"run"` // names the run on every machine
	// over the changes, machines and times: equal for each run of an unchanged plan
	Hash       string    `json:"hash"`
	Scenario   Scenario  `json:"scenario"`
	Profile    string    `json:"profile,omitempty"`
	Node       string    `json:"node"` // that is walked
	Allocation string    `json:"allocation_id,omitempty"`
	At         time.Time `json:"at"`

	Targets  []PlannedMachine `json:"targets"`
	Schedule []PlannedStep    `json:"schedule"` // in the order of time
	Injected PlannedProbe     `json:"injected"`
	Control  PlannedProbe     `json:"control"`
	Proof    PlannedProbe     `json:"proof"`
	Decision *Decision        `json:"decision,omitempty"` // sent to the platform after everything is reverted
	Material []Material       `json:"material,omitempty"` // created for this run; its texts are secret
	Budgets  Budgets          `json:"budgets"`
	// hops that a walk here leaves out, of those that must stay green; with was-green, all of them
	NotMeasured []AbsentHop `json:"not_measured,omitempty"`

	Facts *Facts `json:"facts,omitempty"` // input of the plan, for a caller that plans again

	Refused []Refusal `json:"refused,omitempty"` // if not empty, the plan must not be executed
}

// PlannedMachine is one machine and the drill that is sent to it.
type PlannedMachine struct {
	Role  Role       `json:"role"`
	ID    string     `json:"id"`
	Host  string     `json:"host"`
	Tier  string     `json:"tier"` // the weakest of its steps
	Drill step.Drill `json:"drill"`
}

// PlannedStep is one step with its start time.
type PlannedStep struct {
	At      Duration `json:"at"` // after the first one
	Machine string   `json:"machine"`
	Step    string   `json:"step"`
}

// PlannedProbe is a probe that is ready to run: variables are substituted, and the program has a path.
type PlannedProbe struct {
	From    Role       `json:"from"`
	Machine string     `json:"machine,omitempty"` // empty: the operator's
	Check   step.Check `json:"check"`
}

// Budgets are the time limits that the verdict checks.
type Budgets struct {
	TTL           Duration `json:"ttl"`
	Lease         Duration `json:"lease"`
	InjectWithin  Duration `json:"inject_within"`
	DetectWithin  Duration `json:"detect_within"`
	RecoverWithin Duration `json:"recover_within"`
}

// Refusal is a reason not to execute the plan.
type Refusal struct {
	Machine string `json:"machine,omitempty"`
	Fault   string `json:"fault,omitempty"`
	step.Refusal
}

// String formats the refusal in one line: "compute-node-01, fault block: cuts_operator: ...".
func (r Refusal) String() string {
	where := r.Machine
	if r.Fault != "" {
		if where != "" {
			where += ", "
		}
		where += "fault " + r.Fault
	}
	if where != "" {
		where += ": "
	}
	return where + r.Refusal.Error()
}

// Redacted returns the plan without its secret texts, for every reader except the machines: keys and tokens, and
// files that are not world-readable.
func (p Plan) Redacted() Plan {
	p.Targets = slices.Clone(p.Targets)
	for i := range p.Targets {
		p.Targets[i].Drill = p.Targets[i].Drill.Redacted()
	}
	if p.Facts != nil {
		f := *p.Facts
		f.Machines = slices.Clone(f.Machines)
		for i := range f.Machines {
			files := maps.Clone(f.Machines[i].Files)
			for path, file := range files {
				if file.Text != "" && file.private() {
					file.Text = step.Redacted
					files[path] = file
				}
			}
			f.Machines[i].Files = files
		}
		p.Facts = &f
	}
	return p
}
