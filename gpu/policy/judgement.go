package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
)

// Subject is what a finding is about.
type Subject struct {
	About About  `json:"about"`
	What  string `json:"what"`            // for people: "xid 79", "GPU 3", "the kernel log"
	Event int    `json:"event,omitempty"` // its number in the evidence, from 1
	Index *int   `json:"index,omitempty"` // index of the GPU
	UUID  string `json:"uuid,omitempty"`
	PCI   string `json:"pci,omitempty"`

	// Of a fault: when it was reported, and the first time if that was several times; by whom; the part of the hardware
	// that it names, if it is one.
	At      *time.Time      `json:"at,omitempty"`
	Since   *time.Time      `json:"since,omitempty"`
	Sources []report.Source `json:"sources,omitempty"`
	Place   string          `json:"place,omitempty"`
}

// Mode is whether a judgement has an effect.
type Mode string

// Modes. In Shadow a judgement is recorded, but has no effect.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow"
)

// Judgement is a policy's result for the evidence about one node.
type Judgement struct {
	Policy    string `json:"policy"`
	Digest    string `json:"policy_sha256"`
	Catalogue string `json:"xid_tables"` // digest of the tables of XIDs and SXIDs
	Mode      Mode   `json:"mode"`

	Health   Health      `json:"health"`
	Decided  *Finding    `json:"decided_by,omitempty"` // the first of the worst findings; none for HEALTHY
	GPUs     []GPUHealth `json:"gpus"`
	Findings []Finding   `json:"findings"`       // findings about each event, GPU and the node, the worst first
	Past     []Finding   `json:"past,omitempty"` // events that are not judged any more, and why
	Notes    []string    `json:"notes,omitempty"`
}

// GPUHealth is the health of one GPU: the worst finding about it and its events.
type GPUHealth struct {
	Subject
	Health Health `json:"health"`
	Rule   string `json:"rule,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Finding is the result for one event, one GPU or the node.
type Finding struct {
	Subject Subject      `json:"subject"`
	Health  Health       `json:"health,omitempty"` // "" if it was not judged
	Rule    string       `json:"rule,omitempty"`   // the rule that decided; "" if none did
	Why     string       `json:"why,omitempty"`
	Errors  []RuleResult `json:"errors,omitempty"` // rules that could not be evaluated
	Rules   []RuleResult `json:"rules,omitempty"`  // every evaluated rule, in order; only on request
}

// RuleResult is the evaluation of one rule.
type RuleResult struct {
	Rule   string `json:"rule"`
	Result Health `json:"result"`          // the rule's result, whether or not it holds
	Holds  bool   `json:"holds"`           // its condition is true
	Error  string `json:"error,omitempty"` // why it is neither true nor false
}

// MaxFindings is the maximum number of findings in a judgement that is stored or shown.
const MaxFindings = 100

// MaxPast is the maximum number of events that are over in such a judgement.
const MaxPast = 16

// Judged returns a reply's judgement as it is stored and shown: the worst findings, without the result of each rule. An
// incomplete judgement is an error.
func (r *Reply) Judged() (j Judgement, err error) {
	switch {
	case len(r.Mistakes) > 0:
		return j, r.Mistakes[0]
	case r.Judgement == nil || !slices.Contains(healths[:], r.Judgement.Health):
		return j, errors.New("the program's reply has no judgement")
	}
	j = *r.Judgement
	for _, f := range j.Findings { // if the node could not be read, no GPU is known to be healthy
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
	if n := len(j.Past); n > MaxPast { // they are by their events, so the newest are the last
		j.Notes = append(j.Notes, fmt.Sprintf("%d events that are over, of which the last %d are kept", n, MaxPast))
		j.Past = j.Past[n-MaxPast:]
	}
	for i := range j.Past {
		j.Past[i].Rules = nil
	}
	return j, nil
}
