package diag

import "time"

// Scenario is a row of the drift model's failure matrix, from catalogue/scenarios.yaml. Several rows may share a
// reason: the evidence then selects the row, which has its own budgets, recovery and deciding component. The name is
// only output: no code decides by it.
type Scenario struct {
	ID       string
	Title    string
	Reasons  []ReasonCode
	Severity Severity
	Detect   time.Duration
	Repair   time.Duration // 0: by itself, at the next sweep, or on the next business day
	Deciders Owners        // the implementation owners: the platform components that decide
	Recovery Text          // the next action
}

// Scenarios returns the failure matrix. Callers must not modify the rows, which are shared.
func Scenarios() []Scenario { return matrix[:] }
