package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// whole writes everything about each drill.
func (p *page) whole(r *drill.Report) {
	several := len(r.Drills) != 1 || len(r.NotRun) > 0
	if several {
		p.head(r)
		p.Blank()
	}
	for i := range r.Drills {
		p.drill(r, &r.Drills[i])
		if several {
			p.Blank()
		}
	}
	if several {
		p.foot(r)
	} else if how := ended(r); how != "" {
		p.Field("partial", how, render.StatusStyle(diag.StatusInconclusive))
	}
}

func (p *page) drill(r *drill.Report, d *drill.Drill) {
	p.Wrapped(0, "", headline(r, d), render.Strong)
	p.Wrapped(2, "", clean(d.Title), render.Plain)
	p.Blank()
	p.verdict(d)
	p.claims(d)
	p.timings(d)
	p.saying(d)
	for i := range d.Machines {
		p.machine(i, &d.Machines[i])
	}
	for i := range d.Walks {
		p.walk(i, &d.Walks[i])
	}
	p.where(r, d)
}

// headline names the drill and whom it was about.
func headline(r *drill.Report, d *drill.Drill) string {
	parts := []string{"drill " + clean(d.Scenario)}
	for _, f := range [][2]string{{"", d.Node}, {"", d.Allocation}, {"profile ", r.Profile}, {"", d.Severity}} {
		if f[1] != "" {
			parts = append(parts, f[0]+clean(f[1]))
		}
	}
	return strings.Join(parts, " · ")
}

func (p *page) verdict(d *drill.Drill) {
	st := Status(d.Verdict.Word)
	text := st.Symbol() + " " + strings.ToUpper(strings.TrimPrefix(word(d.Verdict.Word).Text, st.Symbol()+" "))
	if d.Verdict.Text != "" {
		text += " · " + clean(d.Verdict.Text)
	}
	p.Wrapped(0, "", text, render.StatusStyle(st))
	p.Blank()
}

// claims is what a drill that passes has shown, as a checklist.
func (p *page) claims(d *drill.Drill) {
	for i, c := range d.Claims {
		st := claimStatus(c.State)
		text := clean(c.Title)
		if c.Text != "" {
			text += ": " + clean(c.Text)
		}
		lead := render.Pad(once(i, "claims"), labelWidth) + render.Pad(st.Symbol()+" "+stateWords(c.State), 11)
		p.Wrapped(0, lead, text, plainUnless(st, diag.StatusPass))
	}
}

// plainUnless is no style for what is as it should be.
func plainUnless(st, good diag.Status) render.Style {
	if st == good {
		return render.Plain
	}
	return render.StatusStyle(st)
}

// labelWidth is the column in which values begin, as in a walk's verdict.
const labelWidth = 10

// The columns of a line with a time: what was timed, and the bar.
const (
	whatWidth = 11
	barWidth  = 24
)

func (p *page) timings(d *drill.Drill) {
	for i, t := range []struct {
		what string
		drill.Timing
	}{{"injected", d.Inject}, {"detected", d.Detect}, {"green", d.Recover}} {
		lead := render.Pad(once(i, "times"), labelWidth) + render.Pad(t.what, whatWidth)
		text := sentence(t.Timing)
		if b := bar(t.Timing, barWidth); b != "" && p.Width() >= labelWidth+whatWidth+barWidth+1+len(text) {
			lead += render.Pad(b, barWidth) + " "
		}
		p.Wrapped(0, lead, text, render.Plain)
	}
}

// saying is what was expected of the chain, and what it said; and what a user was told.
func (p *page) saying(d *drill.Drill) {
	p.Field("expected", clean(expected(d)), render.Plain)
	o := d.Observed
	if o == nil {
		p.Field("said", "nothing is known: no walk was written down while the fault was there", render.StatusStyle(diag.StatusInconclusive))
		return
	}
	p.Field("said", clean(o.Says())+fmt.Sprintf(" (walk %d, correlation id %s)", o.N, clean(o.CorrelationID)), render.Plain)
	for _, b := range o.Others {
		p.Field("", "also "+clean(b.Hop)+" "+clean(b.Signal), render.Plain)
	}
	if o.UserSaw != "" {
		p.Field("user saw", clean(o.UserSaw), render.Plain)
	}
	if len(o.Unlinked) > 0 {
		p.Field("id lost", "not written down by "+clean(strings.Join(o.Unlinked, ", ")), render.StatusStyle(diag.StatusFail))
	}
}

// expected is what the scenario wants of the chain.
func expected(d *drill.Drill) string {
	e := &d.Expected
	text := e.Blame
	if text == "" {
		return ""
	}
	if text == "none" {
		text = "no blame"
	}
	if len(e.Others) > 0 {
		text += "; also " + strings.Join(e.Others, ", ")
	}
	if len(e.Reason) > 0 {
		text += "; reason " + drill.Join(e.Reason, " or ")
	}
	if len(e.FirstFailedHop) > 0 {
		text += "; first failed hop " + drill.Join(e.FirstFailedHop, " or ")
	}
	if len(e.MustStayGreen) > 0 {
		text += "; green " + drill.Join(e.MustStayGreen, ", ")
	}
	return text
}

func once(i int, label string) string {
	if i == 0 {
		return label
	}
	return ""
}

// walk is one walk in one line.
func (p *page) walk(i int, s *drill.Sight) {
	st := render.OutcomeStatus(s.Outcome)
	lead := render.Pad(once(i, "walks"), labelWidth) + fmt.Sprintf("%2d %-7s%s ", s.N, clean(s.Stage), st.Symbol())
	text := render.Pad(tenths(s.BeganMS)+"–"+tenths(s.EndedMS)+" s", 13) + clean(s.Says())
	p.Cells(0, render.Cell{Text: lead, Style: render.Faint}, render.Cell{Text: text, Style: plainUnless(st, diag.StatusPass)})
}

// tenths is a time of the run in seconds.
func tenths(ms int64) string { return fmt.Sprintf("%.1f", float64(ms)/1000) }

// where is who cares, and where more is to be found.
func (p *page) where(r *drill.Report, d *drill.Drill) {
	for i, t := range d.Trouble {
		p.Field(once(i, "trouble"), clean(t), render.StatusStyle(diag.StatusInconclusive))
	}
	if d.Open() {
		p.Field("next", "look at the machines: gpuaasctl chaos status"+lead(" --profile ", clean(r.Profile)), render.Plain)
	}
	p.Field("owner", clean(d.Owner), render.Plain)
	p.Field("runbook", clean(d.Runbook), render.Plain)
	p.Field("evidence", clean(strings.Join(d.Evidence, "; ")), render.Faint)
	parts := []string{}
	for _, f := range [][2]string{{"", d.Run}, {"plan ", shortHash(d)}, {"", stamp(d)}, {"gpuaasctl ", toolOf(r, d)}, {"rendered by gpuaasctl ", r.RenderedBy}} {
		if f[1] != "" {
			parts = append(parts, f[0]+clean(f[1]))
		}
	}
	p.Field("run", strings.Join(parts, " · "), render.Faint)
	p.Field("log", clean(d.Log), render.Faint)
}

// shortHash tells plans apart as well as the whole hash does, which the JSON has.
func shortHash(d *drill.Drill) string { return d.PlanHash[:min(len(d.PlanHash), 12)] }

// toolOf is the version of the tool that ran the drill; "" where neither its log nor its report has it.
func toolOf(r *drill.Report, d *drill.Drill) string { return cmp.Or(d.Tool, r.ToolVersion) }

// stamp is when the run was, and for how long.
func stamp(d *drill.Drill) string {
	if d.StartedAt.IsZero() {
		return ""
	}
	text := d.StartedAt.UTC().Format("2006-01-02 15:04:05Z") + ", " + diag.Millis(d.DurationMS).Words()
	if d.EndedAt.IsZero() {
		text += ", and its end was not seen"
	}
	return text
}
