package classify

import (
	"github.com/gpuaas/gpuaasctl/diag"
	"slices"
	"strings"
)

// Classify is total, deterministic and independent of the order of the evidence. The reason is the first row of Reasons
// that holds, or Evidence.Blamed if that holds. More evidence never weakens security_action_required, with one
// exception: evidence that the quarantine ended, because the node enrolled with a new identity or the platform released
// it.
func Classify(e Evidence) diag.Classification {
	v := viewOf(&e)
	standing, losers := v.weigh()
	blamedFirst(standing, e.Blamed)
	c := diag.Classification{Reason: diag.ReasonNone, Checklist: v.points[:]}
	if len(standing) > 0 {
		c.Reason, c.Because = standing[0].Reason, standing[0].Evidence
	}
	row, _ := diag.LookupReason(c.Reason)
	seen := v.seen()
	c.Title = row.Title.Render(seen)
	next := row.NextAction
	c.Owners, c.Layer, c.Runbook = row.Owners, row.Layer, row.Runbook(e.RunbookBase)
	// the agent works as designed: the platform or its edge refuses its heartbeats
	if n := v.record.refused; c.Reason == diag.ReasonNodeAgentUnreachable && n != nil {
		late, _ := diag.LookupSignal(diag.SigHeartbeatStale)
		c.Owners = late.OwnersOn(diag.SidePlatform)
		if n.ByEdge() {
			c.Owners = late.OwnersOn(diag.SideEdge)
		}
	}
	c.Severity, c.State = row.Severity, diag.StateOf(c.Reason, seen)
	budget := Budget{row.Detect, row.Repair}
	if m := scenarioOf(c.Reason, v); m != nil {
		c.Scenario, c.Component, next = m.ID, m.Deciders.String(), m.Recovery
		c.Severity, budget = m.Severity, Budget{m.Detect, m.Repair}
	}
	c.Owner, c.Next = c.Owners.String(), next.Render(seen)
	for _, clause := range next.Clauses(seen) {
		c.Steps = append(c.Steps, diag.NextStep{Text: clause})
	}
	budget = budget.tightened(e.Budgets[c.Severity])
	c.DetectMS, c.RepairMS = budget.Detect.Milliseconds(), budget.Repair.Milliseconds()
	c.Losers = inOrder(append(losers, standing[min(1, len(standing)):]...))
	works := !slices.ContainsFunc(v.points[:], func(p diag.CheckPoint) bool { return p.Status != diag.MarkPass })
	c.Healthy = works && c.Reason == diag.ReasonNone
	c.Minor = c.Reason != diag.ReasonNone && minor(standing) && v.unfailed()
	c.Warning = works && c.Reason != diag.ReasonNone && minor(standing) && !v.hopFails()
	c.Show(diag.ForUser(c.Reason, seen))
	return c
}

// hopFails reports whether any hop of the walk failed.
func (v *view) hopFails() bool {
	return slices.ContainsFunc(v.Probes, func(p Probed) bool { return p.Status == diag.StatusFail })
}

// unfailed reports whether there was a walk in which no hop failed, and no point of the checklist fails. It ignores the
// points for tasks and task waits: the platform remembers their last failure, which may be over.
func (v *view) unfailed() bool {
	if len(v.Probes) == 0 || v.hopFails() {
		return false
	}
	for _, id := range []diag.PointID{diag.PointHeartbeat, diag.PointIssuer, diag.PointBacklog} {
		if v.point(id).Status == diag.MarkFail {
			return false
		}
	}
	return true
}

// minor reports whether all reasons that hold are P2.
func minor(standing []diag.Candidate) bool {
	return !slices.ContainsFunc(standing, func(k diag.Candidate) bool {
		row, _ := diag.LookupReason(k.Reason)
		return row.Severity != diag.P2
	})
}

// WithEvidence returns the reason that Classify returns, and the evidence for it.
func WithEvidence(e Evidence) (diag.ReasonCode, []string) {
	v := viewOf(&e)
	for _, row := range rules {
		if lines := v.speaksFor(row); len(lines) > 0 && (row.unless == nil || row.unless(v) == "") {
			return row.code, lines
		}
	}
	return diag.ReasonNone, nil
}

// speaksFor returns the evidence that supports a row, sorted.
func (v *view) speaksFor(row rule) []string {
	lines := v.named(row.code)
	if row.also != nil {
		lines = append(lines, row.also(v)...)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// weigh evaluates every row. standing are the reasons that hold and that no other reason hides, losers the other
// reasons that some evidence supports; both most pressing first.
func (v *view) weigh() (standing, losers []diag.Candidate) {
	hidden := map[diag.ReasonCode]diag.ReasonCode{}
	for _, row := range rules {
		k := diag.Candidate{Reason: row.code, Evidence: v.speaksFor(row)}
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

// blamedFirst moves the reason of the blame to the front of the reasons that hold.
func blamedFirst(standing []diag.Candidate, blamed diag.ReasonCode) {
	i := slices.IndexFunc(standing, func(k diag.Candidate) bool { return k.Reason == blamed })
	if i <= 0 {
		return
	}
	own := standing[i]
	copy(standing[1:], standing[:i])
	own.Why, standing[0] = "", own
	for k := range standing[1:] {
		standing[k+1].Why = "beside the blame, which is " + string(blamed)
	}
}

// hide records the reasons that the reason by hides. The first call wins, so callers start with the most pressing
// reason.
func hide(hidden map[diag.ReasonCode]diag.ReasonCode, by diag.ReasonCode) {
	row, _ := diag.LookupReason(by)
	for _, h := range row.Hides {
		if hidden[h] == "" {
			hidden[h] = by
		}
	}
}

// aside explains why the evidence for a reason that does not hold was set aside; it returns "" if there is no such
// evidence.
func (v *view) aside(code diag.ReasonCode) string {
	if why := v.record.why(code); why.words != "" {
		return why.String()
	}
	switch n := v.Node; {
	case n == nil:
	case n.Reason == code && n.Overtaken != "":
		return n.Overtaken
	case code == diag.ReasonClonedIdentity && n.Posture == quarantined:
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

// inOrder sorts candidates by the order of the rows, then by Why.
func inOrder(losers []diag.Candidate) []diag.Candidate {
	rank := func(code diag.ReasonCode) int {
		return slices.IndexFunc(rules[:], func(r rule) bool { return r.code == code })
	}
	slices.SortStableFunc(losers, func(a, b diag.Candidate) int {
		if d := rank(a.Reason) - rank(b.Reason); d != 0 {
			return d
		}
		return strings.Compare(a.Why, b.Why)
	})
	return losers
}
