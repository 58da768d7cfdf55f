package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Section is what a report has about one subject, under a title.
type Section struct {
	Title  string
	Blocks []page.Block
}

// section returns the blocks that write adds, under a title.
func section(title string, o Options, write func(*sheet)) Section {
	s := &sheet{o: o}
	write(s)
	return Section{title, s.Blocks}
}

// AboutWalk returns what a report has about the walk as a whole: its verdict, when each hop ran, the proof, what
// changed, and the next steps.
func AboutWalk(r *diag.Report, o Options) []Section {
	o.Format = Full
	v, facts := &r.Verdict, diag.FactsByID(r.Facts)
	return []Section{
		section("found", o, func(s *sheet) {
			s.outcome(r)
			if v.Blame != nil {
				s.Field("blame", blameLine(v.Blame, v.Confidence), blameStyle(v.Blame))
				s.Field("", v.Blame.Text, page.Plain)
				s.Field("proof", proofText(v), page.Plain)
			}
			if len(v.Symptoms) > 0 {
				s.Field("symptoms", hopList(r.Hops, v.Symptoms), page.Plain)
			}
			s.Field("owner", v.Owner, page.Strong)
			s.user(r)
			s.classification(r.Classification, len(r.Verdict.Recovery) == 0)
			for i := range v.OtherFindings {
				s.other(r, &v.OtherFindings[i], facts)
			}
			for i, cause := range v.RuledOut {
				s.Field(once(i, "ruled out"), cause, page.Faint)
			}
			s.dashboard(&r.Dashboard)
			s.run(&r.Run)
			s.vantages(r, true)
			s.Add(evidence(r))
		}),
		section("time", o, func(s *sheet) { s.waterfall(walkBars(r)) }),
		section("proof", o, func(s *sheet) { s.proofOf(r, v.Proof, v.Observation, v.Unproven, facts) }),
		section("changed", o, func(s *sheet) { s.changedAt(r, "") }),
		section("next", o, func(s *sheet) { s.copyable(v) }),
	}
}

// AboutHop returns what a report has about hop number i (from 0): the finding, when its probes ran, their requests and
// results, the proof, what changed, and the next steps.
func AboutHop(r *diag.Report, i int, o Options) []Section {
	o.Format = Full
	h, facts := &r.Hops[i], diag.FactsByID(r.Facts)
	return []Section{
		section("found", o, func(s *sheet) { s.hop(r, h) }),
		section("time", o, func(s *sheet) { s.waterfall(hopBars(r, h)) }),
		section("asked", o, func(s *sheet) {
			for k := range h.Steps {
				s.step(&h.Steps[k], r.Facts, facts)
			}
			if len(h.Steps) == 0 {
				s.Add(page.Para{Text: "Nothing was asked: " + findingText(&h.Finding), Style: page.Faint})
			}
		}),
		section("proof", o, func(s *sheet) {
			if b := blameOf(&r.Verdict, h.ID); b != nil {
				s.proofOf(r, b.Proof, b.Observation, b.Unproven, facts)
				return
			}
			s.notToBlame(r, h)
		}),
		section("changed", o, func(s *sheet) { s.changedAt(r, h.ID) }),
		section("next", o, func(s *sheet) {
			if b := r.Verdict.Blame; b == nil || b.Hop != h.ID {
				s.notToBlame(r, h)
				s.Add(page.Blank{})
			}
			s.copyable(&r.Verdict)
		}),
	}
}

// hop adds the finding of a hop, and what it means for the verdict.
func (s *sheet) hop(r *diag.Report, h *diag.HopResult) {
	s.Add(page.Heading{Text: number(r.Hops, h.ID) + " " + string(h.ID)}, page.Para{Text: h.Title, Style: page.Faint})
	s.Field("status", page.Status(h.Status).Text, page.StatusStyle(h.Status))
	s.Field("seen", findingText(&h.Finding), page.Plain)
	s.Field("signal", string(h.Signal), page.Plain)
	if h.Failure != diag.OK {
		s.Field("failure", string(h.Failure)+": "+h.Failure.Words(), page.Plain)
	}
	s.Field("at fault", h.Culprit, page.Plain)
	s.Field("recorded", h.Cause, page.Plain)
	for k := range h.Also {
		also := &h.Also[k]
		s.Field(once(k, "also"), page.Status(also.Status).Text+": "+findingText(also), page.StatusStyle(also.Status))
	}
	if h.DurationMS > 0 {
		s.Field("took", TimeUsed(h.DurationMS, h.BudgetMS)+" of its budget", page.Plain)
	}
	s.Field("from", strings.ReplaceAll(h.Vantage, "+", " and "), page.Plain)
	if blamed(&r.Verdict, h.ID) {
		s.Field("verdict", cmp.Or(further(&r.Verdict, h.ID), "this hop is to blame"), page.Bad)
	} else if by, symptom := parents(r)[h.ID]; symptom {
		s.Field("verdict", "follows from "+number(r.Hops, by)+" "+string(by), page.Plain)
	}
}

// notToBlame explains why a hop has no proof and no steps.
func (s *sheet) notToBlame(r *diag.Report, h *diag.HopResult) {
	text := "This hop is not to blame."
	if by, symptom := parents(r)[h.ID]; symptom {
		text = "This hop follows from " + number(r.Hops, by) + " " + string(by) + "."
	} else if blamed(&r.Verdict, h.ID) {
		text = "This hop is a separate finding; the steps are those for the verdict."
	}
	s.Add(page.Para{Text: text, Style: page.Faint})
}

// step adds one step: its result, its request, what it measured, and its counter-probes.
func (s *sheet) step(st *diag.StepResult, all []diag.Fact, facts map[string]*diag.Fact) {
	words := []string{st.Name, st.Vantage}
	if st.DurationMS > 0 {
		words = append(words, st.DurationMS.Words())
	}
	if why := strings.TrimSpace(string(st.Failure) + " " + st.Because); why != "" {
		words = append(words, why)
	}
	s.Add(page.Para{Lead: st.Status.Symbol() + " ", Text: strings.Join(words, " · "), Style: page.StatusStyle(st.Status)})
	f := facts[st.Fact]
	if f == nil {
		s.Add(page.Blank{})
		return
	}
	lines := Detail(f)
	s.Field("asked", lines[0], page.Strong)
	for _, in := range inputsOf(&f.Request) {
		if in.name != "op" && in.name != "target" {
			s.Field("", in.name+" "+in.text, page.Faint)
		}
	}
	for i, l := range lines[1:] {
		s.Field(once(i, "seen"), l, page.Plain)
	}
	for i, c := range countersOf(f, all) {
		word := "passes"
		if c.Failure != diag.OK {
			word = string(c.Failure)
		}
		differs := cmp.Or(strings.Join(diag.Changed(&f.Request, &c.Request), ", "), "nothing, asked again")
		s.Field(once(i, "also asked"), fmt.Sprintf("%s from %s, %s: %s (differs in %s)", strings.TrimPrefix(c.ID, f.ID+"~"),
			c.Vantage, c.DurationMS.Words(), word, differs), page.Faint)
	}
	s.Add(page.Blank{})
}

// countersOf returns the counter-probes of a failed fact, in the order in which they ran.
func countersOf(f *diag.Fact, all []diag.Fact) []*diag.Fact {
	var found []*diag.Fact
	for i := range all {
		if strings.HasPrefix(all[i].ID, f.ID+"~") {
			found = append(found, &all[i])
		}
	}
	slices.SortStableFunc(found, func(a, b *diag.Fact) int { return int(a.OffsetMS - b.OffsetMS) })
	return found
}

// blameOf returns the verdict's finding about a hop, nil if there is none.
func blameOf(v *diag.Verdict, id diag.HopID) *diag.Blame {
	if b := v.Blame; b != nil && b.Hop == id {
		whole := *b // the verdict has the proof of its own blame
		whole.Proof, whole.Observation, whole.Unproven = v.Proof, v.Observation, v.Unproven
		return &whole
	}
	for i := range v.OtherFindings {
		if v.OtherFindings[i].Hop == id {
			return &v.OtherFindings[i]
		}
	}
	return nil
}

// changedAt adds what changed at a hop, or everywhere where id is "".
func (s *sheet) changedAt(r *diag.Report, id diag.HopID) {
	d := r.Diff
	if d == nil {
		s.Add(page.Para{Text: "This walk was compared with no other one.", Style: page.Faint})
		return
	}
	if id == "" || !d.Comparable {
		s.diff(r)
		return
	}
	here := *d
	here.Changes, here.NotCompared = nil, nil
	for i := range d.Changes {
		c := &d.Changes[i]
		if c.Hop == id || slices.ContainsFunc(c.Facts, func(f string) bool { return ofHop(f, id) }) {
			here.Changes = append(here.Changes, *c)
		}
	}
	for _, n := range d.NotCompared {
		if n.Hop == id || ofHop(n.Fact, id) {
			here.NotCompared = append(here.NotCompared, n)
		}
	}
	about := *r
	about.Diff = &here
	s.diff(&about)
	if n := len(d.Changes) - len(here.Changes); n > 0 {
		s.Field("elsewhere", page.Count(n, "change"), page.Faint)
	}
}

func ofHop(fact string, id diag.HopID) bool { return strings.HasPrefix(fact, string(id)+"/") }

// Commands returns the commands of a verdict's steps, and last the command that verifies the repair, in the order in
// which copyable numbers them.
func Commands(v *diag.Verdict) []string {
	var all []string
	for _, step := range v.Recovery {
		for k, part := range strings.Split(step, "`") {
			if k%2 == 1 {
				all = append(all, page.Clean(part))
			}
		}
	}
	if v.RepairProof != "" {
		all = append(all, page.Clean(v.RepairProof))
	}
	return all
}

// copyable adds the steps, each command with its number in brackets, as in Commands.
func (s *sheet) copyable(v *diag.Verdict) {
	n := 0
	bracket := func() string {
		n++
		return fmt.Sprintf("[%d]", n)
	}
	for i, step := range v.Recovery {
		label := fmt.Sprintf("step %d", i+1)
		for k, part := range strings.Split(step, "`") {
			if k%2 == 1 {
				s.Add(page.Fields{{Label: bracket(), Command: part}})
			} else if part = strings.TrimSpace(strings.TrimLeft(part, ",; ")); part != "" {
				s.Field(label, part, page.Plain)
				label = ""
			}
		}
	}
	if v.RepairProof != "" {
		s.Field("verify", "the repair holds when this passes:", page.Plain)
		s.Add(page.Fields{{Label: bracket(), Command: v.RepairProof}})
	}
	if n == 0 && len(v.Recovery) == 0 {
		s.Add(page.Para{Text: "There is nothing to do.", Style: page.Faint})
		return
	}
	s.Field("runbook", v.Runbook, page.Faint)
}

// further returns a note for a finding other than the blame; "" for the blame itself.
func further(v *diag.Verdict, id diag.HopID) string {
	if v.Blame == nil || v.Blame.Hop == id {
		return ""
	}
	return "a further finding, beside the blame of " + string(v.Blame.Hop)
}
