package diag

// Classification is the operator reason that the evidence supports, with everything that follows from it.
type Classification struct {
	Reason   ReasonCode `json:"reason"`
	Title    string     `json:"title"`
	Scenario string     `json:"scenario,omitempty"` // matching row of the failure matrix; absent where none matches

	State UserState `json:"state"` // the state family of the reason
	// the state shown to users: softened while their workload is measured to be healthy
	UserState UserState `json:"user_state"`
	UserText  string    `json:"user_text,omitempty"` // absent: nothing is shown
	// UserActions are what a user interface does for the reason, besides showing UserText.
	UserActions []UserAction `json:"user_actions,omitempty"`

	Severity  Severity `json:"severity,omitempty"`
	DetectMS  int64    `json:"detect_within_ms,omitempty"`
	RepairMS  int64    `json:"repair_within_ms,omitempty"` // absent: repairs itself, or on the next business day
	Owner     string   `json:"owner"`
	Owners    Owners   `json:"owners,omitempty"`    // whom to call, in order; Owner is the same list as one string
	Component string   `json:"component,omitempty"` // the platform component that decides, according to the failure matrix
	Next      string   `json:"next_action"`
	// Steps are the steps of Next as data.
	Steps   []NextStep `json:"steps,omitempty"`
	Layer   Layer      `json:"layer"`
	Runbook string     `json:"runbook"`

	// Healthy requires that all five points of the checklist pass; the absence of complaints is not enough. Warning:
	// all five points pass and no hop fails, but a P2 reason holds: the node works and should be investigated.
	Healthy bool `json:"healthy"`
	Warning bool `json:"warning,omitempty"`
	// for a walk: the reason that holds is P2 and nothing that was measured fails, though not everything may have been
	// measured
	Minor bool `json:"minor,omitempty"`
	// for a walk whose blame is about something else: how this reason and the blame relate
	Beside string `json:"beside,omitempty"`
	// Rule is the row of a reason by which another owner would be called than by the verdict.
	Rule      *Rule        `json:"rule,omitempty"`
	Checklist []CheckPoint `json:"checklist"`
	Because   []string     `json:"because,omitempty"` // the evidence that decided
	// reasons that some evidence supports but that are not the verdict, most pressing first
	Losers []Candidate `json:"losers,omitempty"`
}

// Rule is a reason's own row of the catalogue, beside a verdict that names another owner. It is not whom to call.
type Rule struct {
	Reason  ReasonCode `json:"reason"`
	Owner   string     `json:"owner"`
	Owners  Owners     `json:"owners"` // as in Classification
	Next    string     `json:"next_action"`
	Because string     `json:"because"` // why the verdict does not follow it
}

// Candidate is a reason that some evidence supports. Why explains why it is not the verdict.
type Candidate struct {
	Reason   ReasonCode `json:"reason"`
	Why      string     `json:"why"`
	Evidence []string   `json:"evidence,omitempty"`
}

// Show sets what users are shown.
func (c *Classification) Show(s Shown) {
	c.UserState, c.UserText, c.UserActions = s.State, s.Text, s.Actions
}

// NeedsSomebody reports whether the reason is a fault that an operator must act on: neither a warning nor a reason for
// which there is too little evidence. It is false for a walk that passes.
func (c *Classification) NeedsSomebody() bool {
	return c.Reason != ReasonNone && !c.Minor && !c.Warning && c.UserState != UserUnknown
}
