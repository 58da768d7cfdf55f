package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// liner writes one line.
type liner func(format string, args ...any)

// writeMarkdown writes a summary for a pull request or a handover: the verdict, the matrix, and then each drill, those
// that did not pass first and opened.
func writeMarkdown(w io.Writer, r *drill.Report) error {
	return render.MarkdownPage(w, func(line func(string, ...any)) {
		l := liner(line)
		l.head(r)
		l.matrix(r)
		for _, passed := range [...]bool{false, true} {
			for i := range r.Drills {
				if d := &r.Drills[i]; (d.Verdict.Word == drill.Pass) == passed {
					l.drill(d, passed && len(r.Drills) > 1)
				}
			}
		}
		l("%s", writtenBy(r))
	})
}

// writtenBy names the tool that ran the drills, and the one that rendered the page where that is another run of it.
func writtenBy(r *drill.Report) string {
	switch {
	case r.RenderedBy == "":
		return fmt.Sprintf("Written by gpuaasctl %s.", md(r.ToolVersion))
	case r.ToolVersion == "":
		return fmt.Sprintf("Rendered by gpuaasctl %s.", md(r.RenderedBy))
	}
	return fmt.Sprintf("Run by gpuaasctl %s, rendered by gpuaasctl %s.", md(r.ToolVersion), md(r.RenderedBy))
}

func md[T ~string](s T) string { return render.MarkdownText(string(s)) }

func code[T ~string](s T) string { return render.MarkdownCode(string(s)) }

func (l liner) head(r *drill.Report) {
	l("## %s: %s", md(word(r.Verdict.Word).Text), md(counts(r)))
	l("")
	var parts []string
	if b := r.Book; b != nil {
		parts = append(parts, fmt.Sprintf("Game day %s, seed %s", code(b.ID), code(fmt.Sprint(b.Seed))))
	}
	if r.Profile != "" {
		parts = append(parts, "profile "+code(r.Profile))
	}
	if !r.StartedAt.IsZero() {
		parts = append(parts, r.StartedAt.UTC().Format("2006-01-02 15:04:05Z"))
	}
	if len(parts) > 0 {
		l("%s.", strings.Join(parts, ", "))
		l("")
	}
	if how := ended(r); how != "" {
		l("**%s**", md(how))
		l("")
	}
	if len(r.NotRun) > 0 {
		l("Not run: %s", md(strings.Join(r.NotRun, ", ")))
		l("")
	}
}

func (l liner) matrix(r *drill.Report) {
	if len(r.Drills) == 0 {
		return
	}
	var titles, rules []string
	for _, c := range matrixColumns() {
		titles, rules = append(titles, c.title), append(rules, "---")
	}
	l("| %s |", strings.Join(titles, " | "))
	l("|%s|", strings.Join(rules, "|"))
	for i := range r.Drills {
		row := cellsOf(&r.Drills[i])
		var texts []string
		for _, c := range matrixColumns() {
			texts = append(texts, md(c.cell(&row).Text))
		}
		l("| %s |", strings.Join(texts, " | "))
	}
	l("")
}

// drill writes one drill; folded, so that a page of many that passed stays short.
func (l liner) drill(d *drill.Drill, folded bool) {
	if folded {
		l("<details><summary>%s %s</summary>", md(word(d.Verdict.Word).Text), md(d.Scenario))
	} else {
		l("### %s %s", md(word(d.Verdict.Word).Text), md(d.Scenario))
	}
	l("")
	l("%s. %s", md(strings.TrimSuffix(d.Title, ".")), md(d.Verdict.Text))
	l("")
	for _, c := range d.Claims {
		text := md(c.Title)
		if c.Text != "" {
			text += ": " + md(c.Text)
		}
		l("- %s %s: %s", claimStatus(c.State).Symbol(), md(stateWords(c.State)), text)
	}
	l("")
	l("| time | seen |")
	l("|---|---|")
	l("| injected | %s |", md(sentence(d.Inject)))
	l("| detected | %s |", md(sentence(d.Detect)))
	l("| green again | %s |", md(sentence(d.Recover)))
	l("")
	for _, f := range [][2]string{
		{"Expected", md(expected(d))}, {"Said", md(saysOf(d))}, {"The user saw", md(sawOf(d))}, {"Owner", md(d.Owner)}, {"Runbook", md(d.Runbook)},
		{"Evidence", md(strings.Join(d.Evidence, "; "))}, {"Trouble", md(strings.Join(d.Trouble, "; "))},
	} {
		if f[1] != "" {
			l("- %s: %s", f[0], f[1])
		}
	}
	l("- Run %s, plan %s%s", code(d.Run), code(shortHash(d)), lead(", log ", code(d.Log)))
	l.machines(d)
	l("")
	if folded {
		l("</details>")
		l("")
	}
}

func lead(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func (l liner) machines(d *drill.Drill) {
	for i := range d.Machines {
		m := &d.Machines[i]
		l("- %s: %s", code(m.ID), md(machineSays(m)))
		for _, s := range m.Steps {
			l("  - %s %s %s%s", stepStatus(s.State).Symbol(), md(orWord(s.State, "not begun")), code(s.ID), lead(": ", md(s.Text)))
			for _, c := range s.Changes {
				if c.State == step.Conflict || c.State == step.Failed {
					l("    - %s %s %s%s", stepStatus(c.State).Symbol(), md(c.State), code(c.Place), lead(": ", md(c.Text)))
				}
			}
		}
		for _, r := range m.Residue {
			st, why := diag.StatusFail, ""
			if r.Allowed != "" {
				st, why = diag.StatusSkipped, " (allowed: "+md(r.Allowed)+")"
			}
			l("  - %s left: %s%s", st.Symbol(), md(r.String()), why)
		}
	}
}
