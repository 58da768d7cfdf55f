package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// table writes the whole report for people: the hops, the verdict, who and when.
func (p *page) table(r *diag.Report, steps bool) {
	p.line(0, Headline(&r.Subject), Strong)
	p.vantages(r)
	rows := make([]HopRow, len(r.Hops))
	for i := range r.Hops {
		rows[i] = Done(&r.Hops[i])
	}
	facts := index(r.Facts)
	parent := parents(r)
	p.rows(rows, func(i int) {
		p.under(r, i, parent)
		if steps {
			p.steps(&r.Hops[i], facts)
		}
	})
	p.footnotes(r)
	p.line(0, "  "+Counts(r.Hops), Faint)
	p.newline()
	p.verdict(r, facts)
	p.run(&r.Run)
}

func index(facts []diag.Fact) map[string]*diag.Fact {
	m := make(map[string]*diag.Fact, len(facts))
	for i := range facts {
		m[facts[i].ID] = &facts[i]
	}
	return m
}

// parents maps each symptom to the hop that explains it.
func parents(r *diag.Report) map[diag.HopID]diag.HopID {
	m := map[diag.HopID]diag.HopID{}
	if b := r.Verdict.Blame; b != nil {
		for _, s := range append(append([]diag.HopID{}, r.Verdict.Symptoms...), b.Symptoms...) {
			m[s] = b.Hop
		}
	}
	for _, b := range r.Verdict.OtherFindings {
		for _, s := range b.Symptoms {
			if _, taken := m[s]; !taken {
				m[s] = b.Hop
			}
		}
	}
	return m
}

func number(hops []diag.HopResult, id diag.HopID) string {
	for i := range hops {
		if hops[i].ID == id {
			return strconv.Itoa(i + 1)
		}
	}
	return "?"
}

const underIndent = 3

// besideText is the most columns that a row has beside its text: what is longer than the rest may have been cut.
const besideText = 82

// under writes what a row has to say beneath it. A symptom points at what explains it; a blame's text is cut, since it
// stands in full in the verdict; reasons that many rows share come once, in the footnotes.
func (p *page) under(r *diag.Report, i int, parent map[diag.HopID]diag.HopID) {
	h := &r.Hops[i]
	inRow := p.width >= textColumnFrom
	by, symptom := parent[h.ID]
	switch {
	case h.Status == diag.StatusFail && symptom:
		p.line(underIndent, fmt.Sprintf("└ follows from %s %s", number(r.Hops, by), Clean(string(by))), Faint)
	case h.Status == diag.StatusFail && blamed(&r.Verdict, h.ID):
		if !inRow {
			p.line(underIndent, "└ "+Clean(said(&h.Finding)), StatusStyle(h.Status))
		}
	case inRow && width(Clean(said(&h.Finding))) <= p.width-besideText:
		// The row itself says it all.
	case h.Status == diag.StatusFail, h.Status == diag.StatusWarn, h.Status == diag.StatusInconclusive:
		p.wrapped(underIndent, "└ ", Clean(said(&h.Finding)), StatusStyle(h.Status))
	}
	for k := range h.Also {
		also := &h.Also[k]
		p.wrapped(underIndent, "└ ", "also "+Clean(also.Status.Words())+": "+Clean(said(also)), StatusStyle(also.Status))
	}
}

// blamed reports whether the verdict speaks of the hop itself.
func blamed(v *diag.Verdict, id diag.HopID) bool {
	if v.Blame != nil && v.Blame.Hop == id {
		return true
	}
	for i := range v.OtherFindings {
		if v.OtherFindings[i].Hop == id {
			return true
		}
	}
	return false
}

// said is the sentence of a finding.
func said(f *diag.Finding) string {
	switch {
	case f.Text != "":
		return f.Text
	case f.Because != "":
		return f.Because
	case f.Failure != diag.OK:
		return f.Failure.Words()
	}
	return string(f.Signal)
}

// readable is the longest line of prose, also on a wider page.
const readable = 120

// wrapped writes text behind a lead, later lines under the text.
func (p *page) wrapped(indent int, lead, text string, st Style) {
	in := indent + width(lead)
	for i, l := range wrap(text, min(p.width, readable)-in) {
		if i == 0 {
			p.b.WriteString(spaces(indent))
			p.put(lead, Faint)
		} else {
			p.b.WriteString(spaces(in))
		}
		p.put(l, st)
		p.newline()
	}
}

// footnotes say why hops or steps were not run, each reason once.
func (p *page) footnotes(r *diag.Report) {
	type note struct {
		why  string
		hops []string
	}
	var notes []*note
	add := func(why, hop string) {
		for _, n := range notes {
			if n.why == why {
				n.hops = append(n.hops, hop)
				return
			}
		}
		notes = append(notes, &note{why, []string{hop}})
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		switch h.Status {
		case diag.StatusSkipped, diag.StatusNotReached:
			if p.width < textColumnFrom {
				add(Clean(h.Status.Words())+": "+Clean(said(&h.Finding)), strconv.Itoa(i+1))
			}
			continue
		}
		for _, s := range h.Steps {
			if s.Status == diag.StatusSkipped || s.Status == diag.StatusNotReached {
				add("step "+Clean(s.Status.Words())+": "+Clean(s.Because), strconv.Itoa(i+1)+" "+Clean(s.Name))
			}
		}
	}
	for _, n := range notes {
		p.wrapped(underIndent-1, "", n.why+" ("+strings.Join(n.hops, ", ")+")", Faint)
	}
}

// vantages says from where was measured, and what could not be had.
func (p *page) vantages(r *diag.Report) {
	for _, v := range r.Vantages {
		var parts []string
		for _, s := range []string{v.How, v.Host} {
			if s != "" {
				parts = append(parts, Clean(s))
			}
		}
		if v.Resolver != "" {
			parts = append(parts, "DNS "+Clean(v.Resolver))
		}
		if v.ClockOffsetMS != nil {
			parts = append(parts, fmt.Sprintf("clock %+d ms", *v.ClockOffsetMS))
		}
		lead := fmt.Sprintf("%-8s ", Clean(v.ID))
		if v.Missing != "" {
			p.wrapped(2, lead, strings.Join(append(parts, "missing: "+Clean(v.Missing)), " · "), Bad)
			continue
		}
		p.wrapped(2, lead, strings.Join(parts, " · "), Faint)
	}
}

func (p *page) run(run *diag.Run) {
	var parts []string
	for _, f := range [][2]string{{"", run.ID}, {"", run.DurationMS.Words()}, {"gpuaasctl ", run.ToolVersion}} {
		if f[1] != "" {
			parts = append(parts, f[0]+Clean(f[1]))
		}
	}
	p.field("run", strings.Join(parts, " · "), Faint)
	p.field("trace", Clean(run.CorrelationID), Faint)
}
