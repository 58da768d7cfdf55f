package render

import (
	"io"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// writeJUnit writes a suite for each drill with a case for each claim: a violated claim is a failure, a claim that
// was not seen an error. So a suite is green exactly if the drill passed.
func writeJUnit(w io.Writer, r *drill.Report) error {
	return junit(r).Encode(w)
}

func junit(r *drill.Report) render.JUnitSuites {
	all := render.JUnitSuites{Name: "gpuaasctl chaos"}
	total := int64(0)
	for i := range r.Drills {
		s := suite(r, &r.Drills[i])
		total += r.Drills[i].DurationMS
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
		all.Suites = append(all.Suites, s)
	}
	for _, id := range r.NotRun {
		all.Tests++
		all.Suites = append(all.Suites, render.JUnitSuite{
			Name: clean(id), Tests: 1, Skipped: 1, Time: "0",
			Cases: []render.JUnitCase{{Name: "run", ClassName: "drill." + clean(id), Time: "0",
				Skipped: &render.JUnitProblem{Message: "not run: it ended before"}}},
		})
	}
	if how := ended(r); how != "" {
		all.Tests, all.Errors = all.Tests+1, all.Errors+1
		all.Suites = append(all.Suites, render.JUnitSuite{
			Name: "drills", Tests: 1, Errors: 1, Time: "0",
			Cases: []render.JUnitCase{{Name: "ended", ClassName: "drill", Time: "0",
				Error: &render.JUnitProblem{Message: how, Type: clean(r.EndedBy)}}},
		})
	}
	all.Time = junitSeconds(total)
	return all
}

func suite(r *drill.Report, d *drill.Drill) render.JUnitSuite {
	c := cellsOf(d)
	s := render.JUnitSuite{
		Name: clean(d.Scenario), Time: junitSeconds(d.DurationMS), Hostname: clean(d.Node),
		Properties: render.JUnitProperties([]render.JUnitProperty{
			{Name: "run", Value: clean(d.Run)}, {Name: "plan_hash", Value: clean(d.PlanHash)}, {Name: "seed", Value: seed(r)},
			{Name: "verdict", Value: clean(d.Verdict.Word)}, {Name: "severity", Value: clean(d.Severity)},
			{Name: "owner", Value: clean(d.Owner)},
			{Name: "detected", Value: c.detected.Text}, {Name: "recovered", Value: c.recovered.Text},
			{Name: "residue", Value: c.residue.Text},
			{Name: "user_saw", Value: sawOf(d)}, {Name: "insecure", Value: insecure(r)},
		}),
	}
	if !d.StartedAt.IsZero() {
		s.Timestamp = d.StartedAt.UTC().Format("2006-01-02T15:04:05") // the format has no time zone and no fractions
	}
	for i := range d.Claims {
		s.Cases = append(s.Cases, junitClaim(d, &d.Claims[i]))
	}
	for _, c := range s.Cases {
		if c.Failure != nil {
			s.Failures++
		}
		if c.Error != nil {
			s.Errors++
		}
		if c.Skipped != nil {
			s.Skipped++
		}
	}
	s.Tests = len(s.Cases)
	if d.Verdict.Word != drill.Pass && s.Failures+s.Errors == 0 { // without this the suite would be green
		s.Cases = append(s.Cases, render.JUnitCase{
			Name: "verdict", ClassName: "drill." + clean(d.Scenario), Time: "0",
			Error: &render.JUnitProblem{Message: clean(d.Verdict.Text), Type: orWord(d.Verdict.Word, "no verdict")},
		})
		s.Tests, s.Errors = s.Tests+1, s.Errors+1
	}
	return s
}

func seed(r *drill.Report) string {
	if r.Game == nil {
		return ""
	}
	return strconv.FormatUint(r.Game.Seed, 10)
}

func junitClaim(d *drill.Drill, c *drill.Claim) render.JUnitCase {
	k := render.JUnitCase{Name: clean(c.ID), ClassName: "drill." + clean(d.Scenario), Time: "0"}
	if t, ok := timingOf(d, c.ID); ok && t.Seen {
		k.Time = junitSeconds(t.WithinMS)
	}
	message := clean(c.Title)
	if c.Text != "" {
		message += ": " + clean(c.Text)
	}
	switch c.Outcome() {
	case drill.Held:
		k.Out = message
	case drill.Violated:
		k.Failure = &render.JUnitProblem{Message: message, Type: orWord(c.Word, string(drill.Violated)),
			Text: "\n" + junitText(d, c) + "\n"}
	case drill.NotApplicable:
		k.Skipped = &render.JUnitProblem{Message: message}
	default:
		k.Error = &render.JUnitProblem{Message: "not seen: " + message, Type: orWord(c.Word, string(drill.NotSeen))}
	}
	return k
}

// junitText is the text that a CI page shows for a failure.
func junitText(d *drill.Drill, c *drill.Claim) string {
	said := func(label, text string) string { return page.Prefixed(label+": ", clean(text)) }
	return strings.Join(page.NonEmpty(clean(c.Title), said("why", c.Text), said("expected", expected(d)),
		said("said", saysOf(d)), said("user saw", sawOf(d)), said("owner", d.Owner), said("runbook", d.Runbook),
		said("log", d.Log)), "\n")
}

func saysOf(d *drill.Drill) string {
	if d.Observed == nil {
		return ""
	}
	return d.Observed.VerdictLine()
}

func sawOf(d *drill.Drill) string {
	if d.Observed == nil {
		return ""
	}
	return clean(d.Observed.UserSaw)
}

// junitSeconds formats a duration for JUnit: seconds with milliseconds.
func junitSeconds(ms int64) string { return strconv.FormatFloat(float64(max(ms, 0))/1000, 'f', 3, 64) }
