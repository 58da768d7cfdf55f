// Package compare tells what changed between two reports: of one node, of two environments, of a watch.
package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// Diff lists what changed from base to now. good are kept walks that passed, the newest first: they distinguish noise
// from changes. It is pure; the caller sets Baseline.From.
//
// A measurement that only one of the two has is listed as not compared: it is neither a change nor a regression.
func Diff(base, now *diag.Report, good []*diag.Report) *diag.Diff {
	d := &diag.Diff{
		Baseline: diag.Baseline{RunID: base.Run.ID, At: base.Run.StartedAt, Outcome: base.Verdict.Outcome, Runs: len(good)},
		Changes:  []diag.Change{},
	}
	if d.Because = incomparable(base, now); d.Because != "" {
		return d
	}
	d.Comparable = true
	c := &comparison{base: base, now: now, diff: d, here: sameHere(base, now)}
	for _, r := range good {
		c.good = append(c.good, diag.FactsByID(r.Facts))
	}
	c.plans()
	c.hops()
	c.facts()
	slices.SortStableFunc(d.Changes, order)
	return d
}

// NoBaseline returns the diff of a walk for which there is no baseline.
func NoBaseline(from, because string) *diag.Diff {
	return &diag.Diff{Baseline: diag.Baseline{From: from}, Because: because, Changes: []diag.Change{}}
}

// incomparable returns why two walks cannot be compared: their subjects differ, or now leaves out a measurement of the
// baseline. It is "" if they can be, also if now measures more than the baseline.
func incomparable(base, now *diag.Report) string {
	if why := verdict.Reduced(base); why != "" {
		return "of the baseline: " + why
	}
	if why := verdict.Reduced(now); why != "" {
		return "of this report: " + why
	}
	for _, s := range [...]struct{ what, before, after string }{
		{"profile", base.Subject.EnvironmentProfile, now.Subject.EnvironmentProfile},
		{"node", cmp.Or(base.Subject.NodeID, base.Subject.NodeHost), cmp.Or(now.Subject.NodeID, now.Subject.NodeHost)},
		{"allocation", base.Subject.AllocationID, now.Subject.AllocationID},
	} {
		if s.before != s.after {
			return fmt.Sprintf("another %s: %s now, %s then", s.what, orNone(s.after), orNone(s.before))
		}
	}
	if !SameEnvironment(base, now) {
		return fmt.Sprintf("another environment of this name: signing CA and machine are %s and %s now, %s and %s then",
			now.Subject.Expected[expectedCA], now.Subject.NodeInstanceID, base.Subject.Expected[expectedCA],
			base.Subject.NodeInstanceID)
	}
	for _, was := range base.Plan.Hops {
		is := planned(now.Plan, was.ID)
		if was.Skip != "" || is == nil {
			continue
		}
		if is.Skip != "" {
			return fmt.Sprintf("this walk leaves out %s (%s), the baseline has it", is.ID, is.Skip)
		}
		for _, step := range was.Steps {
			if why := is.Left[step]; why != "" && was.Left[step] == "" {
				return fmt.Sprintf("this walk leaves out %s/%s (%s), the baseline has it", is.ID, step, why)
			}
		}
	}
	return ""
}

// expectedCA is the profile's key for the fingerprint of the CA that signs node certificates.
const expectedCA = "signing_ca_fingerprint"

// SameEnvironment reports whether two walks are of one environment. If both the signing CA and the machine are known to
// differ, it is another environment of the same name, such as a new lab. One of them alone is a rotated CA or a new
// machine.
func SameEnvironment(a, b *diag.Report) bool {
	differ := func(x, y string) bool { return x != "" && y != "" && x != y }
	return !differ(a.Subject.Expected[expectedCA], b.Subject.Expected[expectedCA]) ||
		!differ(a.Subject.NodeInstanceID, b.Subject.NodeInstanceID)
}

// sameHere reports whether both walks began on the same machine: the operator's measurements compare only then.
func sameHere(base, now *diag.Report) bool {
	return vantageHost(base) == vantageHost(now)
}

func vantageHost(r *diag.Report) string {
	for _, v := range r.Vantages {
		if v.ID == hop.Operator {
			return v.Host
		}
	}
	return ""
}

// comparison collects the changes between two walks.
type comparison struct {
	base, now *diag.Report
	good      []map[string]*diag.Fact
	here      bool
	diff      *diag.Diff
}

// add appends a change, or folds it into the same change of another fact.
func (c *comparison) add(ch diag.Change, fact string) {
	row, _ := diag.LookupChange(ch.Kind)
	if row.Gate == diag.GateUnseen {
		ch.Regression = !ch.Known
	}
	for i := range c.diff.Changes {
		was := &c.diff.Changes[i]
		if was.Kind == ch.Kind && ch.Noise == nil && ch.Kind != diag.ChangeStatus && was.Before == ch.Before &&
			was.After == ch.After {
			if fact != "" && !slices.Contains(was.Facts, fact) {
				was.Facts = append(was.Facts, fact)
			}
			was.Regression, was.Known = was.Regression || ch.Regression, was.Known && ch.Known
			return
		}
	}
	if fact != "" {
		ch.Facts = []string{fact}
	}
	c.diff.Changes = append(c.diff.Changes, ch)
}

// skip records what is not compared. An entry for a hop covers its facts as well.
func (c *comparison) skip(n diag.NotCompared) {
	if n.Fact != "" && slices.ContainsFunc(c.diff.NotCompared, func(o diag.NotCompared) bool {
		return o.Hop == n.Hop && o.Fact == ""
	}) {
		return
	}
	c.diff.NotCompared = append(c.diff.NotCompared, n)
}

// plans compares the inputs of the walks: expectations, policy, budgets, and the version of the tool.
func (c *comparison) plans() {
	c.maps(diag.ChangeProfile, "subject.expected.", c.base.Subject.Expected, c.now.Subject.Expected)
	c.maps(diag.ChangePolicy, "plan.policy.", numbers(c.base.Plan.Policy), numbers(c.now.Plan.Policy))
	c.values(diag.ChangeRoute, "subject.node_host", c.base.Subject.NodeHost, c.now.Subject.NodeHost)
	c.values(diag.ChangeTool, "run.tool_version", c.base.Run.ToolVersion, c.now.Run.ToolVersion)
	c.values(diag.ChangeTool, "run.rules_version", c.base.Run.RulesVersion, c.now.Run.RulesVersion)
	for _, was := range c.base.Plan.Hops {
		if is := planned(c.now.Plan, was.ID); is != nil && is.BudgetMS != was.BudgetMS {
			c.add(diag.Change{
				Kind: diag.ChangeBudget, Hop: was.ID, Field: "plan.budget_ms",
				Before: strconv.FormatInt(was.BudgetMS, 10), After: strconv.FormatInt(is.BudgetMS, 10),
			}, "")
		}
	}
	if !c.here {
		c.skip(diag.NotCompared{
			What: "resolver, route and times of the operator",
			Because: fmt.Sprintf("this walk began on %s, the baseline on %s", orNone(vantageHost(c.now)),
				orNone(vantageHost(c.base))),
		})
	}
}

func (c *comparison) values(kind diag.ChangeKind, field, before, after string) {
	if before != after {
		c.add(diag.Change{Kind: kind, Field: field, Before: before, After: after}, "")
	}
}

func (c *comparison) maps(kind diag.ChangeKind, prefix string, before, after map[string]string) {
	keys := map[string]bool{}
	for k := range before {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		c.values(kind, prefix+k, before[k], after[k])
	}
}

func numbers(m map[string]int64) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = strconv.FormatInt(v, 10)
	}
	return out
}

// hops compares the statuses of the hops.
func (c *comparison) hops() {
	for i := range c.now.Hops {
		is := &c.now.Hops[i]
		before := reading.HopNamed(c.base.Hops, is.ID)
		switch {
		case before.ID == "":
			c.skip(diag.NotCompared{Hop: is.ID, What: "hop", Because: "the baseline does not know this hop"})
		case before.Status == is.Status:
		case goodness(before.Status) == 0:
			c.skip(diag.NotCompared{Hop: is.ID, What: "hop",
				Because: "in the baseline it is " + before.Status.Words() + because(before)})
		case goodness(is.Status) == 0:
			c.skip(diag.NotCompared{Hop: is.ID, What: "hop", Because: is.Status.Words() + " now" + because(is)})
		default:
			c.add(diag.Change{
				Kind: diag.ChangeStatus, Hop: is.ID, Field: "status", Before: string(before.Status), After: string(is.Status),
				Regression: goodness(is.Status) < goodness(before.Status),
			}, "")
		}
	}
}

// goodness orders the statuses of measured hops; it is 0 for a hop that was not measured.
func goodness(s diag.Status) int {
	return map[diag.Status]int{
		diag.StatusPass:         4,
		diag.StatusWarn:         3,
		diag.StatusInconclusive: 2,
		diag.StatusFail:         1,
	}[s]
}

func because(h *diag.HopResult) string {
	if h.Because == "" {
		return ""
	}
	return ": " + h.Because
}

// order puts regressions first, and possible causes before effects (statuses and times); then the order of the chain,
// then that of the table of changes.
func order(a, b diag.Change) int {
	last := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	effect := func(ch diag.Change) bool { return ch.Kind == diag.ChangeStatus || ch.Kind == diag.ChangeTiming }
	return cmp.Or(
		cmp.Compare(last(!a.Regression), last(!b.Regression)),
		cmp.Compare(last(effect(a)), last(effect(b))),
		cmp.Compare(last(a.Hop != ""), last(b.Hop != "")),
		cmp.Compare(a.Hop.Rank(), b.Hop.Rank()),
		cmp.Compare(kindIndex(a.Kind), kindIndex(b.Kind)),
	)
}

func kindIndex(k diag.ChangeKind) int {
	return slices.IndexFunc(diag.Changes(), func(row diag.ChangeRow) bool { return row.Kind == k })
}

func planned(p diag.Plan, id diag.HopID) *diag.PlannedHop {
	for i := range p.Hops {
		if p.Hops[i].ID == id {
			return &p.Hops[i]
		}
	}
	return nil
}

func orNone(s string) string { return cmp.Or(s, "none") }
