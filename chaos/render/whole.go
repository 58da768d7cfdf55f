package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// page adds the page of one drill: details first and the answer last, so that the answer stays on the screen.
func (s *sheet) page(r *drill.Report, d *drill.Drill, o render.Options) {
	s.Add(page.Heading{Text: Headline(r, d)}, page.Para{Text: d.Title, Indent: 2})
	s.Add(claims(d, true), timings(d, o.Width), machines(d, true))
	s.limits(r)
	for i, t := range d.Trouble {
		s.Field(once(i, "trouble"), t, page.Unsure)
	}
	s.Add(page.Blank{})
	s.Add(render.FitPage(o, func(_ int, short bool) []page.Block { return answer(r, d, o.From, short) })...)
}

// answer is the result of a drill: its verdict and the reason, what was expected and what the chain reported, the
// owner, the next commands, and last the verdict in one line.
func answer(r *drill.Report, d *drill.Drill, from string, short bool) []page.Block {
	s := &sheet{}
	st := Status(d.Verdict.Word)
	s.Add(page.Para{Text: loud(d.Verdict.Word) + page.Prefixed(" · ", d.Verdict.Text), Style: page.StatusStyle(st)})
	if claimOf(d, drill.ClaimDetected).State != drill.Held {
		text := expected(d)
		if short {
			text, _, _ = strings.Cut(text, "; ")
		}
		s.Field("expected", text, page.Plain)
	}
	s.saying(d, false)
	s.Field("owner", d.Owner, page.Strong)
	next := page.Fields{}
	if text, command := remedy(r, d); text != "" {
		next = append(next, page.Field{Text: text, Command: command})
	}
	if run := cmp.Or(from, d.Run); run != "" {
		next = append(next, page.Field{Text: "see every claim, step and walk:",
			Command: diag.Command("gpuaasctl", "chaos", "report", run, "-o", "full")})
	}
	if len(next) > 0 {
		next[0].Label = "next"
		s.Add(next)
	}
	parts := []string{loud(d.Verdict.Word), d.Scenario}
	if o := d.Observed; o != nil && o.Blame != nil {
		parts = append(parts, fmt.Sprintf("%d %s", o.Number(o.Blame.Hop), o.Blame.Hop))
	}
	if d.Detect.Seen {
		parts = append(parts, detected(d)+" "+sentence(d.Detect))
	}
	if ended(r) != "" {
		parts = append(parts, "partial report")
	}
	s.Add(page.Para{Text: strings.Join(append(parts, "run "+d.Run), " · "), Style: page.StatusStyle(st)})
	return s.Blocks
}

// whole adds everything about each drill.
func (s *sheet) whole(r *drill.Report, width int) {
	several := len(r.Drills) != 1 || len(r.NotRun) > 0
	if several {
		s.Add(page.Heading{Text: Title(r)})
		s.Add(page.Blank{})
	}
	for i := range r.Drills {
		d := &r.Drills[i]
		s.Add(page.Heading{Text: Headline(r, d)}, page.Para{Text: d.Title, Indent: 2}, page.Blank{})
		s.drill(r, d, width)
		text := loud(d.Verdict.Word) + page.Prefixed(" · ", d.Verdict.Text)
		s.Add(page.Para{Text: text, Style: page.StatusStyle(Status(d.Verdict.Word))})
		if several {
			s.Add(page.Blank{})
		}
	}
	if several {
		s.foot(r)
	} else {
		s.limits(r)
	}
}

// drill adds everything about the drill except its verdict.
func (s *sheet) drill(r *drill.Report, d *drill.Drill, width int) {
	s.Add(claims(d, false), timings(d, width))
	s.Field("expected", expected(d), page.Plain)
	s.saying(d, true)
	s.Add(machines(d, false), walks(d))
	s.where(r, d)
}

// Headline names the drill, its node and allocation, the profile and the severity.
func Headline(r *drill.Report, d *drill.Drill) string {
	return strings.Join(page.NonEmpty("drill "+d.Scenario, d.Node, d.Allocation, page.Prefixed("profile ", r.Profile),
		d.Severity), " · ")
}

// claims lists a drill's claims as a checklist; brief shows only those that are not held, and how many are.
func claims(d *drill.Drill, brief bool) page.Fields {
	var f page.Fields
	held, all := 0, 0
	for _, c := range d.Claims {
		if c.State == drill.Held {
			held++
		}
		if c.Outcome() != drill.NotApplicable {
			all++
		}
	}
	if brief {
		f = page.Fields{{Label: "claims", Text: fmt.Sprintf("%d of %d held", held, all)}}
	}
	for i, c := range d.Claims {
		if brief && c.State == drill.Held {
			continue
		}
		st := ClaimStatus(c.Outcome())
		f = append(f, page.Field{
			Label: once(i+len(f), "claims"), Lead: page.Pad(st.Symbol()+" "+stateWords(c.Outcome()), 11),
			Text:  c.Title + page.Prefixed(": ", c.Text),
			Style: plainUnless(st, diag.StatusPass),
		})
	}
	return f
}

// plainUnless returns the plain style for a good status, and the status's style otherwise.
func plainUnless(st, good diag.Status) page.Style {
	if st == good {
		return page.Plain
	}
	return page.StatusStyle(st)
}

// The columns of a line with a time: the label, and the bar, which needs a wide enough terminal.
const (
	whatWidth = 11
	barWidth  = 24
	barFrom   = 100
)

// detected names a drill's time to detect; if nothing may be blamed, the time is that of the walk that shows this.
func detected(d *drill.Drill) string {
	if d.Expected.Blame == "none" {
		return "walked"
	}
	return "detected"
}

func timings(d *drill.Drill, width int) page.Fields {
	var f page.Fields
	for i, t := range []struct {
		what string
		drill.Timing
	}{{"injected", d.Inject}, {detected(d), d.Detect}, {"recovered", d.Recover}} {
		lead := page.Pad(t.what, whatWidth)
		if b := bar(t.Timing, barWidth); b != "" && (width == 0 || width >= barFrom) {
			lead += b + " "
		}
		f = append(f, page.Field{Label: once(i, "times"), Lead: lead, Text: sentence(t.Timing)})
	}
	return f
}

// saying returns the chain's report and the tenant-visible error; whole adds the walk and the chain's other
// findings.
func (s *sheet) saying(d *drill.Drill, whole bool) {
	o := d.Observed
	if o == nil {
		s.Field("reported", "nothing is known: no walk was written down while the fault was there", page.Unsure)
		return
	}
	text := o.VerdictLine()
	if whole {
		text += fmt.Sprintf(" (walk %d, correlation id %s)", o.N, o.CorrelationID)
	}
	s.Field("reported", text, page.Plain)
	for _, b := range o.Others {
		s.Field("", "also "+string(b.Hop)+" "+string(b.Signal), page.Plain)
	}
	s.Field("user saw", o.UserSaw, page.Plain)
	if len(o.Unlinked) > 0 {
		s.Field("id lost", "not written down by "+strings.Join(o.Unlinked, ", "), page.Bad)
	}
}

// expected describes the scenario's expectation of the chain.
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
		text += "; reason " + step.Join(e.Reason, " or ")
	}
	if len(e.FirstFailedHop) > 0 {
		text += "; first failed hop " + step.Join(e.FirstFailedHop, " or ")
	}
	if len(e.MustStayGreen) > 0 {
		text += "; green " + step.Join(e.MustStayGreen, ", ")
	}
	if len(e.NotMeasured) > 0 {
		text += "; not measured here: " + strings.Join(byReason(e.NotMeasured), "; ")
	}
	return text
}

func once(i int, label string) string {
	if i == 0 {
		return label
	}
	return ""
}

// walks describes each walk in one line.
func walks(d *drill.Drill) page.Fields {
	var f page.Fields
	for i := range d.Walks {
		w := &d.Walks[i]
		st := render.OutcomeStatus(w.Outcome)
		f = append(f, page.Field{
			Label: once(i, "walks"), Text: w.VerdictLine(), Style: plainUnless(st, diag.StatusPass),
			Lead: fmt.Sprintf("%2d %-7s%s ", w.N, w.Stage, st.Symbol()) +
				page.Pad(tenths(w.BeganMS)+"–"+tenths(w.EndedMS)+" s", 13),
		})
	}
	return f
}

// tenths formats a time of the run in seconds.
func tenths(ms int64) string { return fmt.Sprintf("%.1f", float64(ms)/1000) }

// where names the owner, and the places with more information.
func (s *sheet) where(r *drill.Report, d *drill.Drill) {
	for i, t := range d.Trouble {
		s.Field(once(i, "trouble"), t, page.Unsure)
	}
	if d.Open() {
		s.Field("next", "look at the machines: gpuaasctl chaos status"+page.Prefixed(" --profile ", r.Profile), page.Plain)
	}
	s.Field("owner", d.Owner, page.Plain)
	s.Field("runbook", d.Runbook, page.Plain)
	s.Field("evidence", strings.Join(d.Evidence, "; "), page.Faint)
	s.Field("run", strings.Join(page.NonEmpty(d.Run, page.Prefixed("plan ", diag.Digits(d.PlanHash)), stamp(d),
		page.Prefixed("gpuaasctl ", toolOf(r, d)), page.Prefixed("rendered by gpuaasctl ", r.RenderedBy)), " · "), page.Faint)
	s.Field("log", d.Log, page.Faint)
}

// toolOf returns the version of the tool that ran the drill; "" if neither its log nor its report has it.
func toolOf(r *drill.Report, d *drill.Drill) string { return cmp.Or(d.Tool, r.ToolVersion) }

// stamp describes when the run was, and how long it took.
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
