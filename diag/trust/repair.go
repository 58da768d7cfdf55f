package trust

import (
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Repair is one step: where it is done, and what to do, with commands to paste between backticks.
type Repair struct {
	Where string `json:"where"` // control_plane | profile | node
	Text  string `json:"text"`
}

// The places of steps, in the order in which they are done.
const (
	atControlPlane = "control_plane"
	atProfile      = "profile"
	atNode         = "node"
)

func order(where string) int {
	return slices.Index([]string{atControlPlane, atProfile, atNode}, where)
}

// causeInfo describes a cause: what changed, the signal for its owners, and the repair. The rows are in
// diag/catalogue/causes.yaml; their texts have the placeholders of diag.Fill.
type causeInfo struct {
	cause  Cause
	moved  string
	signal diag.Signal
	repair []repairStep
}

// repairStep is one step of a repair, before Fill.
type repairStep struct {
	diag.Step
	where     string
	reenrolls bool // re-enrolls the node, which is done only once
	waits     bool // re-enrolls only after the control plane matches, and replaces a step that does not wait
}

// causeRow returns a cause's row, an empty one for an unknown cause.
func causeRow(c Cause) causeInfo {
	for _, r := range causeRows {
		if r.cause == c {
			return r
		}
	}
	return causeInfo{cause: c}
}
