package render

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Diff writes only a diff, for `history diff`. Wide adds what was not compared.
func Diff(w io.Writer, d *diag.Diff, o Options) error {
	s := &sheet{o: o}
	s.diff(&diag.Report{Diff: d})
	return s.write(w)
}

// shownChanges is how many changes a table shows; wide and all other formats have every change.
const shownChanges = 8

// diff adds the changes since the baseline.
func (s *sheet) diff(r *diag.Report) {
	d := r.Diff
	if d == nil {
		return
	}
	st := page.Plain
	switch {
	case !d.Comparable:
		st = page.Unsure
	case d.Regressions() > 0:
		st = page.Bad
	}
	s.Field("changed", diffHead(d), st)
	lines := diffLines(r)
	for i, l := range lines {
		if !s.o.all() && i == shownChanges {
			s.Field("", fmt.Sprintf("and %d more (-o wide)", len(lines)-i), page.Faint)
			break
		}
		s.Add(page.Fields{{Lead: l.mark(), Text: l.text}})
	}
	if s.o.all() {
		for _, l := range uncompared(d) {
			s.Field("", "not compared: "+l, page.Faint)
		}
		return
	}
	if text := uncomparedShort(d); text != "" {
		s.Field("", text, page.Faint)
	}
}

// diffHead sums a diff up in one line.
func diffHead(d *diag.Diff) string {
	what := "since " + baseline(&d.Baseline)
	n := d.Regressions()
	switch {
	case !d.Comparable:
		return "not known: no comparison with " + baseline(&d.Baseline) + ": " + d.Because
	case len(d.Changes) == 0:
		return "nothing " + what
	case n == 0:
		return what + ": " + page.Count(len(d.Changes), "change") + ", no regression"
	case n == len(d.Changes):
		return what + ": " + page.Count(n, "regression")
	}
	return what + ": " + page.Count(n, "regression") + ", " + page.Count(len(d.Changes)-n, "other change")
}

func baseline(b *diag.Baseline) string {
	name := b.From
	if b.From == diag.LastGood {
		name = "the last good walk"
	}
	if !b.At.IsZero() {
		name += " of " + b.At.UTC().Format("2006-01-02 15:04:05Z")
	}
	return name
}

// diffLine is one change as text.
type diffLine struct {
	text       string
	regression bool
}

// diffLines returns the changes as text; equal changes of several hops share a line.
func diffLines(r *diag.Report) []diffLine {
	var lines []diffLine
	status := map[string]int{}
	for i := range r.Diff.Changes {
		c := &r.Diff.Changes[i]
		if c.Kind == diag.ChangeStatus {
			key := diag.Status(c.Before).Words() + " -> " + diag.Status(c.After).Words()
			hop := string(c.Hop)
			if len(r.Hops) > 0 {
				hop = number(r.Hops, c.Hop) + " " + hop
			}
			if at, ok := status[key]; ok {
				lines[at].text += ", " + hop
				continue
			}
			status[key] = len(lines)
			lines = append(lines, diffLine{key + ": " + hop, c.Regression})
			continue
		}
		lines = append(lines, diffLine{changeText(c), c.Regression})
	}
	return lines
}

func (l diffLine) mark() string {
	if l.regression {
		return "! "
	}
	return "· "
}

// changeText is one change: what, from, to, and where it was seen.
func changeText(c *diag.Change) string {
	label := string(c.Kind)
	if row, ok := diag.LookupChange(c.Kind); ok {
		label = row.Label
	}
	if c.Noise != nil {
		return fmt.Sprintf("%s %s: %s -> %s, noise is up to %s in %d walks (%s)", label, c.Field, millisText(c.Before),
			millisText(c.After), c.Noise.BoundMS.Words(), c.Noise.Runs, strings.Join(c.Facts, ", "))
	}
	text := label + ": " + value(c.Before) + " -> " + value(c.After)
	switch c.Kind {
	case diag.ChangeProfile, diag.ChangePolicy, diag.ChangeTool, diag.ChangeBudget:
		where := c.Field[strings.LastIndexByte(c.Field, '.')+1:]
		if c.Kind == diag.ChangePolicy {
			where = strings.TrimPrefix(c.Field, "plan.policy.")
		}
		if c.Hop != "" {
			where += " of " + string(c.Hop)
		}
		text = label + ": " + where + " " + value(c.Before) + " -> " + value(c.After)
	}
	if c.Known {
		text += ", as in an earlier good walk"
	}
	if len(c.Facts) > 0 {
		text += " (" + c.Facts[0]
		if n := len(c.Facts) - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		text += ")"
	}
	return text
}

// value shortens a digest to the part that people compare.
func value(v string) string {
	const sha256Hex = 64
	switch {
	case v == "":
		return "none"
	case len(v) == sha256Hex && strings.Trim(v, "0123456789abcdef") == "":
		return diag.Digits(v)
	}
	return v
}

func millisText(v string) string {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return v
	}
	return diag.Millis(n).Words()
}

// uncompared lists what was not compared, each with its reason.
func uncompared(d *diag.Diff) []string {
	var lines []string
	for _, n := range d.NotCompared {
		where := n.What
		switch {
		case n.Fact != "" && n.What == "fact":
			where = n.Fact
		case n.Fact != "":
			where = n.Fact + " " + n.What
		case n.Hop != "":
			where = string(n.Hop)
		}
		lines = append(lines, where+": "+n.Because)
	}
	return lines
}

// uncomparedShort is the same in one line: the reason for timings, a count for the rest.
func uncomparedShort(d *diag.Diff) string {
	var parts []string
	n := 0
	for _, c := range d.NotCompared {
		if c.What == "timing" {
			parts = append(parts, "times: "+c.Because)
		} else {
			n++
		}
	}
	if n > 0 {
		parts = append(parts, fmt.Sprintf("%d of the measurements (-o wide)", n))
	}
	if len(parts) == 0 {
		return ""
	}
	return "not compared: " + strings.Join(parts, "; ")
}

// diffShort is a diff in a few words, "" if there is none.
func diffShort(d *diag.Diff) string {
	switch {
	case d == nil:
		return ""
	case !d.Comparable:
		return "not compared: " + d.Because
	case len(d.Changes) == 0 && timesLeftOut(d):
		return "nothing changed, times not compared"
	case len(d.Changes) == 0:
		return "nothing changed"
	}
	first := d.Changes[0]
	label := string(first.Kind)
	if row, ok := diag.LookupChange(first.Kind); ok {
		label = row.Label
	}
	if n := d.Regressions(); n > 0 {
		return page.Count(n, "regression") + ": " + label
	}
	return page.Count(len(d.Changes), "change") + ": " + label
}

// timesLeftOut reports whether there were too few stored good walks to tell slow from noisy.
func timesLeftOut(d *diag.Diff) bool {
	return slices.ContainsFunc(d.NotCompared, func(n diag.NotCompared) bool { return n.What == "timing" })
}

// junitDiff is the diff as the suite's output. It fails no case, since the exit code decides whether a gate fails.
func junitDiff(r *diag.Report) string {
	if r.Diff == nil {
		return ""
	}
	lines := []string{page.Clean(diffHead(r.Diff))}
	for _, l := range diffLines(r) {
		if l.regression {
			l.text = "regression: " + l.text
		}
		lines = append(lines, page.Clean(l.text))
	}
	for _, l := range uncompared(r.Diff) {
		lines = append(lines, page.Clean("not compared: "+l))
	}
	return strings.Join(lines, "\n")
}
