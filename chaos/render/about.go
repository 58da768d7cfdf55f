package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// section returns the blocks that write adds under a title, or the text nothing if it adds none.
func section(title, nothing string, write func(*sheet)) render.Section {
	s := &sheet{}
	if write(s); len(s.Blocks) == 0 {
		s.Add(page.Para{Text: nothing, Style: page.Faint})
	}
	return render.Section{Title: title, Blocks: s.Blocks}
}

// Commands returns the commands to run next for a drill, in AboutDrill's numbering; from is the place that its
// report was read from.
func Commands(r *drill.Report, d *drill.Drill, from string) []string {
	var all []string
	about := func(words ...string) {
		if r.Profile != "" {
			words = append(words, "--profile", r.Profile)
		}
		all = append(all, diag.Command(append([]string{"gpuaasctl", "chaos"}, words...)...))
	}
	if d.Open() {
		about("status")
		if d.Run != "" {
			about("revert", d.Run)
		}
	}
	if d.Verdict.Word == drill.Residue {
		about("residue")
	}
	if run := cmp.Or(from, d.Run); run != "" {
		all = append(all, diag.Command("gpuaasctl", "chaos", "report", run, "-o", "full"))
	}
	if o := d.Observed; o != nil && o.Blame != nil && o.Blame.Signal != "" {
		all = append(all, diag.Command("gpuaasctl", "explain", string(o.Blame.Signal)))
	}
	for i := range all { // they are copied as they are
		all[i] = page.Clean(all[i])
	}
	return all
}

// AboutDrill returns a drill's sections: its verdict, its claims, the chain's report, its machines, and the next
// commands.
func AboutDrill(r *drill.Report, d *drill.Drill, from string, width int) []render.Section {
	return []render.Section{
		section("found", "", func(s *sheet) {
			st := Status(d.Verdict.Word)
			s.Add(page.Para{Text: loud(d.Verdict.Word) + page.Prefixed(" · ", d.Verdict.Text), Style: page.StatusStyle(st)},
				page.Para{Text: d.Title, Style: page.Faint})
			s.Add(claims(d, true), timings(d, width))
			s.Field("expected", expected(d), page.Plain)
			s.saying(d, true)
			s.where(r, d)
		}),
		section("claims", "No claim was judged.", func(s *sheet) { s.Add(claims(d, false)) }),
		section("machines", "No machine was touched.", func(s *sheet) {
			if len(d.Machines) > 0 {
				s.Add(machines(d, false))
			}
		}),
		section("walks", "No walk was written down.", func(s *sheet) {
			if len(d.Walks) > 0 {
				s.Add(walks(d))
			}
		}),
		section("next", "", func(s *sheet) {
			for i, c := range Commands(r, d, from) {
				s.Add(page.Fields{{Label: fmt.Sprintf("[%d]", i+1), Command: c}})
			}
		}),
	}
}

// AboutClaim returns the sections about claim number i (from 0).
func AboutClaim(d *drill.Drill, i int) []render.Section {
	c := &d.Claims[i]
	return []render.Section{
		section("found", "", func(s *sheet) {
			s.Add(page.Heading{Text: c.Title})
			st := ClaimStatus(c.Outcome())
			s.Field("state", st.Symbol()+" "+stateWords(c.Outcome()), page.StatusStyle(st))
			s.Field("seen", c.Text, page.Plain)
			if t, ok := timingOf(d, c.ID); ok {
				s.Field("time", sentence(t), page.Plain)
			}
			if c.Word != "" {
				s.Field("verdict", page.Prefixed("makes the drill ", string(c.Word)), page.Plain)
			}
			s.Add(page.Blank{})
			for _, row := range drill.ClaimRows() {
				if row.ID == c.ID {
					s.Field("holds when", strings.ReplaceAll(row.Held, "`", ""), page.Faint)
				}
			}
		}),
		section("probes", "No independent probe was run in this drill.", func(s *sheet) {
			for k := range d.Looks {
				s.addProbe(&d.Looks[k])
			}
		}),
	}
}

// addProbe adds the result of an independent probe.
func (s *sheet) addProbe(l *drill.Seen) {
	s.Field(string(l.Stage)+" "+l.Name, looked(*l), page.Plain)
}

// AboutMachine returns the sections about a machine: what was done there, what is left, and its own journal.
func AboutMachine(d *drill.Drill, i int) []render.Section {
	m := &d.Machines[i]
	one := *d
	one.Machines = d.Machines[i : i+1]
	return []render.Section{
		section("found", "", func(s *sheet) { s.Add(machines(&one, false)) }),
		section("journal", "The report has no journal of this machine.", func(s *sheet) { s.journal(m.Journal, "") }),
	}
}

// journal adds a machine's own entries, or only those about one step if of names it.
func (s *sheet) journal(all []step.Entry, of string) {
	t := page.Table{Columns: page.Titles("time", "what", "step", "by", "state")}
	for i := range all {
		if e := &all[i]; of == "" || e.Step == of {
			t.Rows = append(t.Rows, page.Cells(e.At.UTC().Format("15:04:05.000"), e.Event, e.Step, e.By,
				strings.TrimSpace(string(e.State)+" "+e.Text)))
		}
	}
	if len(t.Rows) > 0 {
		s.Add(t)
	}
}

// AboutStep returns the sections about a step of a machine.
func AboutStep(m *drill.MachineResult, i int) []render.Section {
	st := &m.Steps[i]
	return []render.Section{
		section("found", "", func(s *sheet) {
			s.Add(page.Heading{Text: st.ID + " on " + m.ID})
			s.Field("fault", st.Fault+" ("+st.Tier+")", page.Plain)
			s.Field("state", StepStatus(st.State).Symbol()+" "+orWord(st.State, "not begun"),
				page.StatusStyle(StepStatus(st.State)))
			s.Field("because", st.Text, page.Plain)
			if st.DoneAt != nil {
				s.Field("made", st.DoneAt.UTC().Format("15:04:05.000Z"), page.Plain)
			}
			if st.OverAt != nil {
				s.Field("reverted", st.OverAt.UTC().Format("15:04:05.000Z"), page.Plain)
			}
		}),
		section("changes", "It changed nothing.", func(s *sheet) {
			for _, c := range st.Changes {
				s.Add(page.Fields{marked(StepStatus(c.State), diag.StatusPass,
					orWord(c.State, "not begun")+" "+c.Place+page.Prefixed(": ", c.Text)+page.Prefixed(", by ", c.By))})
			}
		}),
		section("journal", "The report has no journal of this step.", func(s *sheet) { s.journal(m.Journal, st.ID) }),
	}
}

// AboutWalkView returns the sections about a walk; opens is the command that shows the walk's own report, or why
// there is none.
func AboutWalkView(w *drill.WalkView, opens string) []render.Section {
	return []render.Section{
		section("found", "", func(s *sheet) {
			st := render.OutcomeStatus(w.Outcome)
			s.Add(page.Heading{Text: fmt.Sprintf("walk %d, %s", w.N, w.Stage)})
			s.Field("verdict", st.Symbol()+" "+string(w.Outcome)+", from "+tenths(w.BeganMS)+" s to "+tenths(w.EndedMS)+
				" s of the run", page.StatusStyle(st))
			if w.Blame != nil {
				s.Field("blame", w.VerdictLine(), page.Bad)
				s.Field("", w.Blame.Text, page.Plain)
			}
			for i := range w.Others {
				s.Field(once(i, "also"), string(w.Others[i].Hop)+" "+string(w.Others[i].Signal), page.Plain)
			}
			s.Field("reason", string(w.Reason), page.Plain)
			s.Field("user", string(w.UserState), page.Plain)
			s.Field("user saw", w.UserSaw, page.Plain)
			if len(w.Unlinked) > 0 {
				s.Field("id lost", "not written down by "+strings.Join(w.Unlinked, ", "), page.Bad)
			}
			s.Field("walk", w.Walk+page.Prefixed(", correlation id ", w.CorrelationID), page.Faint)
			s.Add(page.Blank{}, page.Para{Text: opens, Style: page.Faint})
		}),
		section("hops", "The report has no hop of this walk.", func(s *sheet) {
			for i, id := range diag.HopsAnd(maps.Keys(w.Hops)) {
				if st := w.Hops[id]; st != "" {
					s.Add(page.Fields{marked(st, diag.StatusPass, fmt.Sprintf("%2d %s", i+1, id))})
				}
			}
		}),
		section("evidence", "The report has no evidence of the platform about this walk.", func(s *sheet) {
			s.pairs(w.ReadModel)
			s.pairs(w.AgentSays)
			for i := range w.Evidence {
				s.Add(page.Para{Text: render.EvidenceWords(&w.Evidence[i]), Style: page.Faint})
			}
		}),
	}
}

func (s *sheet) pairs(m map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		s.Field(name, m[name], page.Plain)
	}
}

// EventLine returns an event in a few words, with the machine if the drill has several; bad marks an event that a
// passing drill does not have.
func EventLine(e *drill.Event, story *drill.Story) (text string, bad bool) {
	text = strings.TrimSpace(string(e.Kind) + " " + e.Step)
	switch {
	case e.WalkView != nil:
		text = fmt.Sprintf("walk %d: %s", e.WalkView.N, e.WalkView.Outcome)
	case e.Seen != nil && e.Seen.NotRun:
		text = "probe " + e.Seen.Name + ": not run"
	case e.Seen != nil && e.Seen.Held:
		text = "probe " + e.Seen.Name + ": yes"
	case e.Seen != nil:
		text = "probe " + e.Seen.Name + ": no"
	case e.Machine == "" && e.Text != "":
		text += ": " + e.Text
	}
	if e.Machine != "" && len(story.Plan.Targets) > 1 {
		text += ", " + e.Machine
	}
	switch e.Kind {
	case drill.Refused, drill.Lost, drill.Stopped, drill.Interrupt, drill.Trouble:
		return text, true
	case drill.Compared:
		return text, e.Clean == nil || !*e.Clean
	}
	return text, false
}

// AboutEvent returns the sections about an event of the log.
func AboutEvent(e *drill.Event, story *drill.Story) []render.Section {
	return []render.Section{section("found", "", func(s *sheet) {
		s.Add(page.Heading{Text: "event " + strconv.Itoa(e.Seq) + ": " + string(e.Kind)})
		s.Field("time", tenths(e.MS)+" s of the run, "+e.At.UTC().Format("15:04:05.000Z"), page.Plain)
		s.Field("machine", e.Machine, page.Plain)
		s.Field("step", e.Step, page.Plain)
		for i, l := range Event(*e, story) {
			s.Field(once(i, "what"), l, page.Plain)
		}
		if seen := e.Seen; seen != nil {
			s.Field("probe", seen.Name+", "+string(seen.Stage), page.Plain)
			s.Field("it saw", seen.Why, page.Plain)
		}
		if st := e.Status; st != nil {
			s.Field("state", string(st.State), page.Plain)
			if st.TTLLeft != nil {
				s.Field("reverts", "by itself after "+st.TTLLeft.Duration().String(), page.Plain)
			}
			for i := range st.Steps {
				s.Add(steps(&st.Steps[i]))
			}
		}
		if e.TookUS > 0 {
			s.Field("took", micros(e.TookUS)+" on the machine", page.Plain)
		}
	})}
}

// AboutRun returns the sections about a report of several drills.
func AboutRun(r *drill.Report) []render.Section {
	return []render.Section{
		section("found", "", func(s *sheet) { s.foot(r) }),
		section("drills", "No drill was run.", func(s *sheet) {
			for i := range r.Drills {
				d := &r.Drills[i]
				s.Add(page.Fields{marked(Status(d.Verdict.Word), diag.StatusPass, d.Scenario+page.Prefixed(": ", d.Verdict.Text))})
			}
		}),
	}
}
