package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Classification writes only a classification, for `diag classify`. Wide adds the evidence and the losing candidates.
func Classification(w io.Writer, c *diag.Classification, o Options) error {
	s := &sheet{o: o}
	s.classification(c, false)
	s.Field("user", userLine(c), page.Plain)
	none, _ := diag.LookupReason(diag.ReasonNone)
	// no evidence against the node, but not enough evidence that it is healthy
	if c.Reason == diag.ReasonNone && !c.Healthy && c.Owner == none.Owners.String() {
		s.Field("owner", "unknown: healthy takes all five points", page.Strong)
		return s.write(w)
	}
	s.Field("owner", c.Owner, page.Strong)
	if c.Owner != none.Owners.String() {
		next := make([]string, len(c.Steps))
		for i := range c.Steps {
			next[i] = c.Steps[i].Prose()
		}
		s.Add(page.Steps{Label: "next", Texts: next})
	}
	s.Field("runbook", c.Runbook, page.Faint)
	return s.write(w)
}

// classification adds the classification of all evidence about the node. Its owner and next steps are the verdict's;
// next adds the next step where the verdict has none.
func (s *sheet) classification(c *diag.Classification, next bool) {
	if c == nil {
		return
	}
	st := page.Bad
	if c.Reason == diag.ReasonNone {
		st = page.Plain
	}
	s.Field("reason", reasonLine(c), st)
	switch {
	case c.Reason == diag.ReasonNone:
	case next:
		s.Field("", c.Title+"; next: "+c.Next, page.Plain)
	default:
		s.Field("", c.Title, page.Plain)
	}
	if r := c.Rule; r != nil {
		s.Field("beside", fmt.Sprintf("%s by itself has the owner %s and the next step \"%s\", because %s", r.Reason,
			r.Owner, r.Next, r.Because), page.Plain)
	} else {
		s.Field("", c.Beside, page.Plain)
	}
	if !s.o.all() {
		return
	}
	for i, l := range c.Because {
		s.Field(once(i, "because"), l, page.Plain)
	}
	for i := range c.Checklist {
		k := &c.Checklist[i]
		s.Field(once(i, "checklist"), markSymbol(k.Status)+" "+string(k.ID)+": "+k.Text, markStyle(k.Status))
	}
	for i := range c.Losers {
		l := &c.Losers[i]
		s.Field(once(i, "not"), string(l.Reason)+": "+l.Why, page.Faint)
		for _, e := range l.Evidence {
			s.Field("", "· "+e, page.Faint)
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
	return strings.Join(append(parts, Checked(c.Checklist)), " · ")
}

// Checked sums up a checklist: "3/5 recovery points, 1 fails, 1 unknown".
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
	text := "detect within " + diag.Span(time.Duration(c.DetectMS)*time.Millisecond)
	if c.RepairMS > 0 {
		text += ", repair within " + diag.Span(time.Duration(c.RepairMS)*time.Millisecond)
	}
	return text
}

func userLine(c *diag.Classification) string {
	if c.UserText == "" {
		return string(c.UserState)
	}
	return string(c.UserState) + " · " + c.UserText
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

func markStyle(m diag.Mark) page.Style {
	if m == diag.MarkFail {
		return page.Bad
	}
	return page.Faint
}
