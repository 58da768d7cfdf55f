package explorer

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// DrillSource has a drill's data that is not in its report.
type DrillSource struct {
	From   string        // the report's file, for commands that read it again; "": use the run id
	Events []drill.Event // from its log; none if that is not available
	// Walk reads the complete report of a walk. If it is nil, NoWalk is the reason.
	Walk   func(w *drill.WalkView) (*diag.Report, error)
	NoWalk string
}

// Drill returns a drill of a report as a document: the drill as a whole, its claims, each machine with its steps, its
// walks and the events of its log. The first selection is the first violated claim, else the first claim that was not
// measured, else the drill.
func Drill(r *drill.Report, d *drill.Drill, src DrillSource) Document {
	doc := Document{Title: drillrender.Headline(r, d), Noun: "row", Whole: "the drill",
		Pick: "the first claim that does not hold", Commands: drillrender.Commands(r, d, src.From)}
	st := drillrender.Status(d.Verdict.Word)
	doc.Items = append(doc.Items, Item{
		Name: "the drill: " + string(d.Verdict.Word), Mark: marked(st), Words: page.NonEmpty(string(d.Verdict.Word)),
		Sections: func(o render.Options) []render.Section { return drillrender.AboutDrill(r, d, src.From, o.Width) },
	})
	seenViolated := false
	for i := range d.Claims {
		c := &d.Claims[i]
		st := drillrender.ClaimStatus(c.Outcome())
		violated := c.State == drill.Violated && !seenViolated
		if violated || (st != diag.StatusPass && doc.First == 0) {
			doc.First, seenViolated = len(doc.Items), seenViolated || violated
		}
		doc.Items = append(doc.Items, Item{
			ID: "claim " + c.ID, Name: c.Title, Mark: marked(st), Words: page.NonEmpty(c.ID, string(c.Word)),
			Sections: func(render.Options) []render.Section { return drillrender.AboutClaim(d, i) },
		})
	}
	for i := range d.Machines {
		m := &d.Machines[i]
		doc.Items = append(doc.Items, Item{
			ID: "machine " + m.ID, Name: "machine " + m.ID, Mark: marked(machineStatus(m)),
			Sections: func(render.Options) []render.Section { return drillrender.AboutMachine(d, i) },
		})
		for k := range m.Steps {
			s := &m.Steps[k]
			doc.Items = append(doc.Items, Item{
				ID: "step " + m.ID + " " + s.ID, Name: "  step " + s.ID, Mark: marked(drillrender.StepStatus(s.State)),
				Sections: func(render.Options) []render.Section { return drillrender.AboutStep(m, k) },
			})
		}
	}
	for i := range d.Walks {
		doc.Items = append(doc.Items, sight(&d.Walks[i], src))
	}
	return withEvents(doc, src)
}

// sight is a walk of a drill as an item, which opens as the walk's own document.
func sight(w *drill.WalkView, src DrillSource) Item {
	item := Item{
		ID: fmt.Sprintf("walk %d", w.N), Name: fmt.Sprintf("walk %d %s", w.N, w.Stage),
		Mark:  marked(render.OutcomeStatus(w.Outcome)),
		Words: page.NonEmpty(string(w.Outcome), string(w.Reason), string(w.UserState)),
	}
	opens := "The whole walk is not at hand: " + src.NoWalk
	if item.Open = src.open(w); item.Open != nil {
		opens = "enter opens the whole walk, hop by hop."
	}
	if w.Blame != nil {
		blame := page.NonEmpty(string(w.Blame.Signal), string(w.Blame.Failure), string(w.Blame.Hop))
		item.Words = append(blame, item.Words...)
	}
	item.Sections = func(render.Options) []render.Section { return drillrender.AboutWalkView(w, opens) }
	return item
}

// open returns a function that returns the document of a walk: nil if its report is not available. A past walk cannot
// be repeated.
func (src DrillSource) open(w *drill.WalkView) func() (Document, error) {
	if src.Walk == nil {
		return nil
	}
	return func() (Document, error) {
		r, err := src.Walk(w)
		if err != nil {
			return Document{}, err
		}
		d := Walk(r)
		for i := range d.Items {
			d.Items[i].Again = ""
		}
		return d, nil
	}
}

// withEvents adds the events of a drill's log to its document as the last items.
func withEvents(doc Document, src DrillSource) Document {
	story := drill.Fold(src.Events)
	for i := range src.Events {
		e := &src.Events[i]
		mark := page.Cell{Text: "·", Style: page.Faint}
		text, bad := drillrender.EventLine(e, &story)
		if bad {
			mark = marked(diag.StatusWarn)
		}
		item := Item{
			ID: fmt.Sprintf("event %d", e.Seq), Name: fmt.Sprintf("%5.1f s %s", float64(e.MS)/1000, text), Mark: mark,
			Sections: func(render.Options) []render.Section {
				return drillrender.AboutEvent(e, &story)
			},
		}
		if e.WalkView != nil {
			item.Open = src.open(e.WalkView)
		}
		doc.Items = append(doc.Items, item)
	}
	return doc
}

// Drills returns a report of several drills as a document, in which each drill opens.
func Drills(r *drill.Report, sourceOf func(d *drill.Drill) DrillSource) Document {
	if len(r.Drills) == 1 && len(r.NotRun) == 0 {
		return Drill(r, &r.Drills[0], sourceOf(&r.Drills[0]))
	}
	doc := Document{Title: drillrender.Title(r), Noun: "drill", Whole: "the run",
		Pick: "the first drill that did not pass"}
	st := drillrender.Status(r.Verdict.Word)
	doc.Items = append(doc.Items, Item{
		Name: "the run: " + string(r.Verdict.Word), Mark: marked(st), Words: page.NonEmpty(string(r.Verdict.Word)),
		Sections: func(render.Options) []render.Section { return drillrender.AboutRun(r) },
	})
	for i := range r.Drills {
		d := &r.Drills[i]
		if doc.First == 0 && d.Verdict.Word != drill.Pass {
			doc.First = len(doc.Items)
		}
		doc.Items = append(doc.Items, Item{
			ID: fmt.Sprintf("drill %d", i), Name: d.Scenario, Note: strings.ReplaceAll(string(d.Verdict.Word), "_", " "),
			Mark: marked(drillrender.Status(d.Verdict.Word)), Words: page.NonEmpty(string(d.Verdict.Word)),
			Open: func() (Document, error) { return Drill(r, d, sourceOf(d)), nil },
			Sections: func(o render.Options) []render.Section {
				return drillrender.AboutDrill(r, d, sourceOf(d).From, o.Width)
			},
		})
	}
	return doc
}

// machineStatus is good only if the machine was compared, is as before, and has no residue of the drill.
func machineStatus(m *drill.MachineResult) diag.Status {
	switch {
	case !m.Armed && m.State == "":
		return diag.StatusSkipped // it was not touched
	case m.Clean == nil:
		return diag.StatusInconclusive
	case !*m.Clean:
		return diag.StatusFail
	case !m.Closed:
		return diag.StatusWarn
	}
	return diag.StatusPass
}

// marked is a status as the mark of an item.
func marked(st diag.Status) page.Cell {
	return page.Cell{Text: st.Symbol(), Style: page.StatusStyle(st)}
}
