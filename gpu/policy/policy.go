// Package policy has what a GPU policy is: its file, its rules, the events and samples that it judges, and what comes
// of it. Nodes report raw events and samples; the control side alone judges them.
//
// It evaluates nothing: package gpu/policy/judge does, and links CEL, which is 5 MB. Only the program
// gpuaas-gpu-policy imports that one; everything else runs the program, see Ask. Callers: `gpuaasctl gpu policy`,
// gpuaas-gpu-policy, and any platform.
package policy

import "slices"

// Health is what the evidence of a GPU or a node comes to. It is not a node's status: see package gpu/status.
type Health string

// Healths. Unknown is that it could not be found out, and is never taken for Healthy.
const (
	Healthy   Health = "HEALTHY"
	Unknown   Health = "UNKNOWN"
	Degraded  Health = "DEGRADED"
	Unhealthy Health = "UNHEALTHY"
)

// healths are in the order of Worse, the best first.
var healths = [...]Health{Healthy, Unknown, Degraded, Unhealthy}

// Healths lists them, the best first.
func Healths() []Health { return slices.Clone(healths[:]) }

// rank of a health. One that is not in the table is Unknown's: it is never green.
func rank(h Health) int {
	if i := slices.Index(healths[:], h); i >= 0 {
		return i
	}
	return slices.Index(healths[:], Unknown)
}

// Worse reports whether a is worse than b. What is known to be bad is worse than what is not known.
func Worse(a, b Health) bool { return rank(a) > rank(b) }

// Worst is the worse of two.
func Worst(a, b Health) Health {
	if Worse(a, b) {
		return a
	}
	return b
}

// Policy is a list of rules. Of the rules about one event or one GPU the first whose condition is true decides; of all
// events and GPUs the worst does.
type Policy struct {
	Name   string `json:"name"`   // of a built-in policy, else the path of the file
	Digest string `json:"sha256"` // of the file
	Rules  []Rule `json:"rules"`
}

// Rule is one of a policy's rules.
type Rule struct {
	Name        string `json:"name" yaml:"name"`
	Description string `json:"description,omitempty" yaml:"description"`
	Condition   string `json:"condition" yaml:"condition"` // CEL, a bool
	Result      Health `json:"result" yaml:"result"`

	Line     int `json:"line" yaml:"-"`           // of the rule in the file
	CondLine int `json:"condition_line" yaml:"-"` // of the condition's first line
}

// Limits of a policy. They are far more than people write, and keep the judging of a thousand events below a second.
const (
	MaxRules     = 200
	MaxCondition = 2000 // bytes
	MaxName      = 64   // bytes
	MaxText      = 1000 // bytes of a description
)

// About is what a rule or a finding is about.
type About string

// The kinds of subjects that a rule is about.
const (
	AboutEvent About = "event"
	AboutGPU   About = "gpu"
	AboutNode  About = "node"
)
