package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Classification writes a classification alone: what `diag classify` shows. With Wide it has the evidence and the
// losing candidates as well.
func Classification(w io.Writer, c *diag.Classification, o Options) error {
	if o.Format == JSON {
		return WriteJSON(w, c)
	}
	p := newPage(o)
	p.classification(c)
	p.field("user", userLine(c), Plain)
	if c.Reason == diag.ReasonNone && !c.Healthy { // nobody said anything bad, and not enough anything good
		p.field("owner", "unknown: healthy takes all five points", Strong)
		return p.flush(w)
	}
	p.field("owner", Clean(c.Owner), Strong)
	p.field("runbook", Clean(c.Runbook), Faint)
	return p.flush(w)
}

// classification says what all evidence together says of the node.
func (p *page) classification(c *diag.Classification) {
	if c == nil {
		return
	}
	st := Bad
	if c.Reason == diag.ReasonNone {
		st = Plain
	}
	p.field("reason", reasonLine(c), st)
	if c.Reason != diag.ReasonNone {
		p.field("", Clean(c.Title)+"; next: "+Clean(c.Next), Plain)
	}
	if c.Beside != "" {
		p.field("", Clean(c.Beside), Plain)
	}
	if p.o.Format != Wide {
		return
	}
	for i, l := range c.Because {
		p.field(once(i, "because"), Clean(l), Plain)
	}
	for i := range c.Checklist {
		k := &c.Checklist[i]
		p.field(once(i, "checklist"), markSymbol(k.Status)+" "+Clean(string(k.ID))+": "+Clean(k.Text), markStyle(k.Status))
	}
	for i := range c.Losers {
		l := &c.Losers[i]
		p.field(once(i, "not"), Clean(string(l.Reason))+": "+Clean(l.Why), Faint)
		for _, e := range l.Evidence {
			p.field("", "· "+Clean(e), Faint)
		}
	}
}

// reasonLine is the reason with its state family, severity, budgets and the count of the checklist.
func reasonLine(c *diag.Classification) string {
	parts := []string{string(c.Reason)}
	if c.Reason != diag.ReasonNone {
		parts = append(parts, string(c.State), string(c.Severity), budgetLine(c))
	}
	if c.Warning {
		parts = append(parts, "a warning: the node works")
	}
	if c.Scenario != "" {
		parts = append(parts, strings.ReplaceAll(c.Scenario, "_", " "))
	}
	return Clean(strings.Join(append(parts, Checked(c.Checklist)), " · "))
}

// Checked counts a checklist: "3/5 recovery points, 1 fails, 1 unknown".
func Checked(points []diag.CheckPoint) string {
	n := map[diag.Mark]int{}
	for _, p := range points {
		n[p.Status]++
	}
	text := fmt.Sprintf("%d/%d recovery points", n[diag.MarkPass], len(points))
	if k := n[diag.MarkFail]; k > 0 {
		text += fmt.Sprintf(", %d failing", k)
	}
	if k := n[diag.MarkUnknown]; k > 0 {
		text += fmt.Sprintf(", %d unknown", k)
	}
	return text
}

func budgetLine(c *diag.Classification) string {
	text := "detect within " + span(time.Duration(c.DetectMS)*time.Millisecond)
	if c.RepairMS > 0 {
		text += ", repair within " + span(time.Duration(c.RepairMS)*time.Millisecond)
	}
	return text
}

func userLine(c *diag.Classification) string {
	if c.UserText == "" {
		return Clean(string(c.UserState))
	}
	return Clean(string(c.UserState) + " · " + c.UserText)
}

func markSymbol(m diag.Mark) string {
	switch m {
	case diag.MarkPass:
		return diag.StatusPass.Symbol()
	case diag.MarkFail:
		return diag.StatusFail.Symbol()
	}
	return diag.StatusInconclusive.Symbol()
}

func markStyle(m diag.Mark) Style {
	if m == diag.MarkFail {
		return Bad
	}
	return Faint
}

// classification writes the section of a CI page.
func (m *markdown) classification(c *diag.Classification) {
	if c == nil {
		return
	}
	m.line("### Classification")
	m.line("")
	m.line("- Reason: %s", md(reasonLine(c)))
	m.line("- Users: %s", md(userLine(c)))
	m.line("- Next: %s (%s)", md(c.Next), md(c.Owner))
	if c.Beside != "" {
		m.line("- Beside: %s", md(c.Beside))
	}
	for _, l := range c.Because {
		m.line("- Because: %s", md(l))
	}
	for i := range c.Checklist {
		k := &c.Checklist[i]
		m.line("- %s %s: %s", markSymbol(k.Status), code(string(k.ID)), md(k.Text))
	}
	for i := range c.Losers {
		m.line("- Not %s: %s", code(string(c.Losers[i].Reason)), md(c.Losers[i].Why))
	}
	m.line("")
}
