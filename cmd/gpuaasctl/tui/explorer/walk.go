package explorer

import (
	"fmt"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Walk returns the report of a walk as a document: the walk as a whole, then every hop. The first selection is the hop
// to blame, else the walk.
func Walk(r *diag.Report) Document {
	d := Document{Title: render.Headline(&r.Subject), Noun: "hop", Whole: "the walk", Pick: "the hop to blame",
		Commands: render.Commands(&r.Verdict)}
	v := &r.Verdict
	st := render.OutcomeStatus(v.Outcome)
	whole := Item{
		Name: "the walk: " + string(v.Outcome), Mark: marked(st),
		Sections: func(o render.Options) []render.Section { return render.AboutWalk(r, o) },
		Words:    page.NonEmpty(string(v.Reason), string(v.Confidence), string(v.UserState), string(v.Outcome)),
	}
	if v.Blame != nil {
		whole.Words = append(page.NonEmpty(string(v.Blame.Signal), string(v.Blame.Failure)), whole.Words...)
	}
	d.Items = append(d.Items, whole)
	for i := range r.Hops {
		d.Items = append(d.Items, Hop(r, i))
		if v.Blame != nil && v.Blame.Hop == r.Hops[i].ID {
			d.First = i + 1
		}
	}
	return d
}

// Hop returns one hop of a report as an item; i is its index in the report.
func Hop(r *diag.Report, i int) Item {
	h := &r.Hops[i]
	item := Item{
		Name: fmt.Sprintf("%2d %s", i+1, h.ID), Again: string(h.ID),
		Mark:     marked(h.Status),
		Words:    page.NonEmpty(string(h.Signal), string(h.Failure), string(h.ID), string(h.Status)),
		Sections: func(o render.Options) []render.Section { return render.AboutHop(r, i, o) },
	}
	if b := r.Verdict.Blame; b != nil && b.Hop == h.ID {
		item.Note = "◀ blame"
	}
	return item
}
