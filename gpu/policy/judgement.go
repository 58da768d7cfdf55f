package policy

import (
	"errors"
	"fmt"
	"slices"
)

// Subject is what a finding is about.
type Subject struct {
	About About  `json:"about"`
	What  string `json:"what"`            // in words: "xid 79", "GPU 3", "the kernel log"
	Event int    `json:"event,omitempty"` // its number in the evidence, from 1
	Index *int   `json:"index,omitempty"` // of the GPU
	UUID  string `json:"uuid,omitempty"`
	PCI   string `json:"pci,omitempty"`
}

// Mode is what may follow from a judgement.
type Mode string

// Modes. In Shadow a judgement is recorded and nothing acts on it.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow"
)

// Judgement is what a policy makes of the evidence about one node.
type Judgement struct {
	Policy    string `json:"policy"`
	Digest    string `json:"policy_sha256"`
	Catalogue string `json:"xid_tables"` // digest of the tables of XIDs and SXIDs
	Mode      Mode   `json:"mode"`

	Health   Health      `json:"health"`
	Decided  *Finding    `json:"decided_by,omitempty"` // the first of the worst findings; none for HEALTHY
	GPUs     []GPUHealth `json:"gpus"`
	Findings []Finding   `json:"findings"` // what was found of each event, GPU and the node, the worst first
	Past     []Finding   `json:"past,omitempty"`
	Notes    []string    `json:"notes,omitempty"`
}

// GPUHealth is the health of one GPU: the worst of what was found of it and of its events.
type GPUHealth struct {
	Subject
	Health Health `json:"health"`
	Rule   string `json:"rule,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Finding is what came of one event, one GPU or the node.
type Finding struct {
	Subject Subject      `json:"subject"`
	Health  Health       `json:"health,omitempty"` // "" for what is not judged
	Rule    string       `json:"rule,omitempty"`   // the one that decided; "" where none did
	Why     string       `json:"why,omitempty"`
	Errors  []RuleResult `json:"errors,omitempty"` // rules that could not be evaluated
	Rules   []RuleResult `json:"rules,omitempty"`  // every evaluated rule, in order; only on request
}

// RuleResult is the evaluation of one rule.
type RuleResult struct {
	Rule   string `json:"rule"`
	Result Health `json:"result"`          // of the rule, whether it holds or not
	Holds  bool   `json:"holds"`           // its condition is true
	Error  string `json:"error,omitempty"` // why it is neither true nor false
}

// MaxFindings is how many findings a judgement has that is kept or shown.
const MaxFindings = 100

// Judged is a reply's judgement as it is kept and shown: the worst findings, without what each rule came to. Whatever
// is not a whole judgement is an error.
func (r *Reply) Judged() (j Judgement, err error) {
	switch {
	case len(r.Mistakes) > 0:
		return j, r.Mistakes[0]
	case r.Judgement == nil || !slices.Contains(healths[:], r.Judgement.Health):
		return j, errors.New("the program's reply has no judgement")
	}
	j = *r.Judgement
	for _, f := range j.Findings { // of a node that could not be looked at, no GPU is known to be well
		for i := range j.GPUs {
			if g := &j.GPUs[i]; f.Subject.About == AboutNode && f.Health == Unknown && g.Health == Healthy {
				g.Health, g.Why = Unknown, f.Subject.What+": "+f.Why
			}
		}
	}
	if n := len(j.Findings); n > MaxFindings {
		j.Findings = j.Findings[:MaxFindings]
		j.Notes = append(j.Notes, fmt.Sprintf("%d findings, of which the %d worst are kept", n, MaxFindings))
	}
	for i := range j.Findings {
		j.Findings[i].Rules = nil
	}
	if j.Decided != nil {
		j.Decided.Rules = nil
	}
	j.Past = nil
	return j, nil
}
