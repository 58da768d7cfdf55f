package trust

import "github.com/gpuaas/gpuaasctl/diag"

// Repair is one step: where it is done, and what, with commands to paste between backticks.
type Repair struct {
	Where string `json:"where"` // control_plane | profile | node
	Text  string `json:"text"`
}

// Where a step is done, in the order in which steps are done.
const (
	atControlPlane = "control_plane"
	atProfile      = "profile"
	atNode         = "node"
)

func order(where string) int {
	switch where {
	case atControlPlane:
		return 0
	case atProfile:
		return 1
	}
	return 2
}

// cornerInfo is what is known of a cause before any fact: what moved, in words, whose signal it is, and how it is
// repaired. The rows are in diag/catalogue/causes.yaml; their texts take the placeholders of diag.Fill.
type cornerInfo struct {
	corner Corner
	moved  string
	signal diag.Signal
	repair []repairStep
}

// repairStep is one step of a repair before a node's values are filled in.
type repairStep struct {
	diag.Step
	where     string
	reenrolls bool // it re-enrolls the node, which is done once
	waits     bool // it does so only after the control plane matches, and is given in place of one that does not wait
}

// cornerRow finds a cause's row; one that has none is empty.
func cornerRow(c Corner) cornerInfo {
	for _, r := range cornerRows {
		if r.corner == c {
			return r
		}
	}
	return cornerInfo{corner: c}
}
