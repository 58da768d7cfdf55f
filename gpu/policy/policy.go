// Package policy defines GPU policies: their file, their rules, the events and samples that they judge, and the
// resulting judgement. Nodes report raw events and samples; only the control side judges them.
//
// It evaluates nothing: package gpu/policy/judge does, and links CEL, which is 5 MB. Only the program gpuaas-gpu-policy
// imports that package; all others run the program, see Ask. Callers: `gpuaasctl gpu policy`, gpuaas-gpu-policy, and
// any platform.
package policy

import "slices"

// Health is a policy's conclusion about a GPU or a node. It is not a node's status: see package gpu/status.
type Health string

// Healths. Unknown means that the health could not be determined; it never counts as Healthy.
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

// rank returns the position of a health. A health that is not in the table ranks like Unknown, so that it is never
// green.
func rank(h Health) int {
	if i := slices.Index(healths[:], h); i >= 0 {
		return i
	}
	return slices.Index(healths[:], Unknown)
}

// Worse reports whether a is worse than b. A known fault is worse than Unknown.
func Worse(a, b Health) bool { return rank(a) > rank(b) }

// Worst returns the worse of two.
func Worst(a, b Health) Health {
	if Worse(a, b) {
		return a
	}
	return b
}

// Policy is a list of rules. For each event or GPU, the first rule whose condition is true decides; the worst event or
// GPU decides for the node.
type Policy struct {
	Name   string `json:"name"`   // of a built-in policy, else the path of the file
	Digest string `json:"sha256"` // digest of the file
	Rules  []Rule `json:"rules"`
}

// Rule is one of a policy's rules.
type Rule struct {
	Name        string `json:"name" yaml:"name"`
	Description string `json:"description,omitempty" yaml:"description"`
	Condition   string `json:"condition" yaml:"condition"` // CEL, a bool
	Result      Health `json:"result" yaml:"result"`
	// Otherwise is for a rule about everything that no rule before it decides. It is evaluated like every other; a rule
	// for HEALTHY before it that also holds is what its author meant, and not noted.
	Otherwise bool `json:"otherwise,omitempty" yaml:"otherwise"`

	Line     int `json:"line" yaml:"-"`           // line in the file
	CondLine int `json:"condition_line" yaml:"-"` // line of the condition's first line
}

// Limits of a policy: far more than people write, while judging a thousand events takes less than a second.
const (
	MaxRules     = 200
	MaxCondition = 2000 // bytes
	MaxName      = 64   // bytes
	MaxText      = 1000 // bytes of a description
)

// About is the kind of subject of a rule or a finding.
type About string

// The kinds of subjects.
const (
	AboutEvent About = "event"
	AboutGPU   About = "gpu"
	AboutNode  About = "node"
)
