package diag

import (
	"slices"
	"strings"
)

// Classification turns evidence into one operator reason, with everything that follows from it.
type Classification struct {
	Reason   ReasonCode `json:"reason"`
	Title    string     `json:"title"`
	Scenario string     `json:"scenario,omitempty"` // row of the failure matrix that fits; absent where none does

	State UserState `json:"state"` // the state family of the reason
	// what users are shown: softened while their workload is measured green
	UserState UserState `json:"user_state"`
	UserText  string    `json:"user_text,omitempty"` // absent: nothing is shown
	// UserActions are what a user interface does for the reason, beside showing the text.
	UserActions []UserAction `json:"user_actions,omitempty"`

	Severity  Severity `json:"severity,omitempty"`
	DetectMS  int64    `json:"detect_within_ms,omitempty"`
	RepairMS  int64    `json:"repair_within_ms,omitempty"` // absent: by itself, or on the next business day
	Owner     string   `json:"owner"`
	Owners    Owners   `json:"owners,omitempty"`    // who is called, the first one first; Owner has all in one line
	Component string   `json:"component,omitempty"` // the part of the platform that decides, by the failure matrix
	Next      string   `json:"next_action"`
	// Steps are those of Next, one by one.
	Steps   []NextStep `json:"steps,omitempty"`
	Layer   Layer      `json:"layer"`
	Runbook string     `json:"runbook"`

	// Healthy takes all five points of the checklist, not the absence of complaints. Warning: the reason is P2, while
	// all five points pass and no hop fails: the node works, and should be looked at.
	Healthy bool `json:"healthy"`
	Warning bool `json:"warning,omitempty"`
	// of a walk: the reason that holds is P2, and nothing that was measured fails; some may not have been
	Minor bool `json:"minor,omitempty"`
	// of a walk whose blame is about something else: how the two go together
	Beside    string       `json:"beside,omitempty"`
	Checklist []CheckPoint `json:"checklist"`
	Because   []string     `json:"because,omitempty"` // the evidence that decided
	Losers    []Candidate  `json:"losers,omitempty"`  // reasons that some evidence supports, most pressing first
}

// Candidate is a reason that some evidence supports. Why states why it is not the verdict.
type Candidate struct {
	Reason   ReasonCode `json:"reason"`
	Why      string     `json:"why"`
	Evidence []string   `json:"evidence,omitempty"`
}

// Classify is total, deterministic and independent of the order of the evidence. More evidence never turns
// security_action_required into less, but for the word that ends it: the node got a new identity, or was taken back.
// The reason is the first row of Reasons that holds.
func Classify(e Evidence) Classification {
	v := look(&e)
	standing, losers := v.weigh()
	c := Classification{Reason: ReasonNone, Checklist: v.points[:]}
	if len(standing) > 0 {
		c.Reason, c.Because = standing[0].Reason, standing[0].Evidence
	}
	row, _ := LookupReason(c.Reason)
	seen := v.seen()
	c.Title = row.Title.Say(seen)
	next := row.NextAction
	c.UserActions = row.UserActions
	c.Owners, c.Layer, c.Runbook = row.Owners, row.Layer, row.Runbook(e.RunbookBase)
	if n := v.record.refused; c.Reason == ReasonNodeAgentUnreachable && n != nil { // the agent does what it should
		late, _ := LookupSignal(SigHeartbeatStale)
		c.Owners = late.OwnersOn(SidePlatform)
		if NotPassedOn(n.Code) != "" {
			c.Owners = late.OwnersOn(SideEdge)
		}
	}
	c.Severity, c.State = row.Severity, v.state(&row)
	budget := Budget{row.Detect, row.Repair}
	if m := scenarioOf(c.Reason, v); m != nil {
		c.Scenario, c.Component, next = m.ID, m.Deciders.String(), m.Recovery
		c.Severity, budget = m.Severity, Budget{m.Detect, m.Repair}
	}
	c.Owner, c.Next = c.Owners.String(), next.Say(seen)
	for _, clause := range next.Clauses(seen) {
		c.Steps = append(c.Steps, NextStep{Text: clause})
	}
	budget = budget.tightened(e.Budgets[c.Severity])
	c.DetectMS, c.RepairMS = budget.Detect.Milliseconds(), budget.Repair.Milliseconds()
	c.Losers = inOrder(append(losers, standing[min(1, len(standing)):]...))
	works := !slices.ContainsFunc(v.points[:], func(p CheckPoint) bool { return p.Status != MarkPass })
	c.Healthy = works && c.Reason == ReasonNone
	c.Minor = c.Reason != ReasonNone && minor(standing) && v.unfailed()
	c.Warning = works && c.Reason != ReasonNone && minor(standing) && !v.hopFails()
	c.UserState, c.UserText = v.shown(standing, seen)
	bad := max(grave(c.State), grave(c.UserState)) >= grave(UserOperator)
	if (c.Reason == ReasonNone && !works) || (c.Reason != ReasonNone && !bad && !v.heard()) {
		// "normal" needs a measurement, and "passes by itself" a node that was seen to work
		c.UserState, c.UserText = UserUnknown, ""
	}
	return c
}

// NeedsSomebody reports whether the reason is a fault that needs an operator: no warning, and not a reason of
// which too little is known. A walk that passes has none.
func (c *Classification) NeedsSomebody() bool {
	return c.Reason != ReasonNone && !c.Minor && !c.Warning && c.UserState != UserUnknown
}

// hopFails reports whether some hop of a walk failed.
func (v *view) hopFails() bool {
	return slices.ContainsFunc(v.Probes, func(p Probed) bool { return p.Status == StatusFail })
}

// unfailed reports whether there was a walk, and neither a hop of it nor a point of the checklist fails. The
// platform's memory of a failed task or task wait is not a measurement of now.
func (v *view) unfailed() bool {
	if len(v.Probes) == 0 || v.hopFails() {
		return false
	}
	for _, id := range []PointID{PointHeartbeat, PointIssuer, PointBacklog} {
		if v.point(id).Status == MarkFail {
			return false
		}
	}
	return true
}

// minor reports whether no reason worse than P2 holds.
func minor(standing []Candidate) bool {
	return !slices.ContainsFunc(standing, func(k Candidate) bool {
		row, _ := LookupReason(k.Reason)
		return row.Severity != P2
	})
}

// Foremost is the reason that Classify gives, with the evidence that decided.
func Foremost(e Evidence) (ReasonCode, []string) {
	v := look(&e)
	for _, row := range rules {
		if lines := v.speaksFor(row); len(lines) > 0 && (row.unless == nil || row.unless(v) == "") {
			return row.code, lines
		}
	}
	return ReasonNone, nil
}

// speaksFor is the evidence for a row, in order.
func (v *view) speaksFor(row rule) []string {
	lines := v.named(row.code)
	if row.also != nil {
		lines = append(lines, row.also(v)...)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// weigh asks every row. standing are the reasons that hold and that nothing hides, most pressing first; losers are the
// others that some evidence supports.
func (v *view) weigh() (standing, losers []Candidate) {
	hidden := map[ReasonCode]ReasonCode{}
	for _, row := range rules {
		k := Candidate{Reason: row.code, Evidence: v.speaksFor(row)}
		if len(k.Evidence) == 0 {
			if k.Why = v.aside(row.code); k.Why == "" {
				continue
			}
		} else if row.unless != nil {
			k.Why = row.unless(v)
		}
		switch {
		case k.Why != "":
		case hidden[row.code] != "":
			k.Why = "hidden by " + string(hidden[row.code]) + ", which causes it or forbids its repair"
		default:
			if len(standing) > 0 {
				k.Why = "outranked by " + string(standing[0].Reason)
			}
			standing = append(standing, k)
			hide(hidden, row.code)
			continue
		}
		losers = append(losers, k)
	}
	return standing, losers
}

// hide notes what by hides; the most pressing one that hides a reason is named.
func hide(hidden map[ReasonCode]ReasonCode, by ReasonCode) {
	row, _ := LookupReason(by)
	for _, h := range row.Hides {
		if hidden[h] == "" {
			hidden[h] = by
		}
	}
}

// aside reports why evidence for a reason that does not hold was set aside: "" without such evidence.
func (v *view) aside(code ReasonCode) string {
	if why := v.record.why(code); why.words != "" {
		return why.String()
	}
	switch n := v.Node; {
	case n == nil:
	case n.Reason == code && n.Overtaken != "":
		return n.Overtaken
	case code == ReasonClonedIdentity && n.Posture == quarantined:
		return "superseded: the node sent its last heartbeat in quarantine, and the platform accepts it again"
	}
	var by []string
	for _, p := range v.speaks {
		if p.By != "" && p.of == code {
			by = append(by, "a symptom of "+string(p.By)+": "+p.Text)
		}
	}
	if len(by) == 0 {
		return ""
	}
	return slices.Min(by)
}

// state is the reason's state family. A certificate recovers by itself only with a current token.
func (v *view) state(row *Reason) UserState {
	switch {
	case row.Code == ReasonCertExpired && v.token != TokenCurrent,
		row.Code == ReasonIdentityRejectedRecoverable && v.token == TokenGone:
		return UserOperator
	}
	return row.State
}

// shown is what users are shown of all reasons that hold: the gravest state, and the words of the reason that is
// nearest to them. While the workload runs and its route answers, a fault of the management layer is at most temporary
// to a user. Security is never softened.
func (v *view) shown(standing []Candidate, seen Seen) (UserState, string) {
	green := workloadRuns(v) && v.passes(HopAppUserRoute)
	state, text, near := UserNormal, "", false
	for _, k := range standing {
		row, _ := LookupReason(k.Reason)
		s := v.state(&row)
		words := row.Shown(s, seen)
		if green && row.Layer == LayerManagement && s != UserSecurity && grave(s) > grave(UserTemporary) {
			s = UserTemporary
		}
		felt := row.Layer != LayerManagement
		if grave(s) > grave(state) || (grave(s) == grave(state) && words != "" && (text == "" || (felt && !near))) {
			state, text, near = s, words, felt
		}
	}
	return state, text
}

// grave orders the states, least urgent first.
func grave(s UserState) int {
	return slices.Index([]UserState{UserNormal, UserTemporary, UserRecovery, UserOperator, UserSecurity}, s)
}

// inOrder sorts by the order of the rows, then by why.
func inOrder(losers []Candidate) []Candidate {
	rank := func(code ReasonCode) int {
		return slices.IndexFunc(rules[:], func(r rule) bool { return r.code == code })
	}
	slices.SortStableFunc(losers, func(a, b Candidate) int {
		if d := rank(a.Reason) - rank(b.Reason); d != 0 {
			return d
		}
		return strings.Compare(a.Why, b.Why)
	})
	return losers
}
