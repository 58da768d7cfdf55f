package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// MarkdownCap is the most that markdown output has, in bytes: GitHub refuses step summaries over 1 MiB, and a job may
// write more than this one.
const MarkdownCap = 900 << 10

// writeMarkdown writes a summary for a CI page: verdict, hops, next steps, and details as far as they fit.
func writeMarkdown(w io.Writer, r *diag.Report) error {
	m := &markdown{left: MarkdownCap - len(markdownCut)}
	m.head(r)
	m.hops(r)
	m.next(&r.Verdict)
	m.classification(r.Classification)
	m.diff(r)
	m.details(r)
	return m.flush(w)
}

func (m *markdown) flush(w io.Writer) error {
	if m.full {
		m.b.WriteString(markdownCut)
	}
	_, err := io.WriteString(w, m.b.String())
	return err
}

const markdownCut = "\nThe rest does not fit here; the JSON report has everything.\n"

// markdown collects lines up to a size; the first line that does not fit ends it.
type markdown struct {
	b    strings.Builder
	left int
	full bool
}

func (m *markdown) line(format string, args ...any) {
	if m.full {
		return
	}
	s := format
	if len(args) > 0 {
		s = fmt.Sprintf(format, args...)
	}
	if len(s)+1 > m.left {
		m.full = true
		return
	}
	m.left -= len(s) + 1
	m.b.WriteString(s)
	m.b.WriteByte('\n')
}

// md makes text harmless in Markdown, also inside a table cell.
func md(s string) string {
	var b strings.Builder
	for _, r := range Clean(s) {
		switch r {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '|':
			b.WriteString("&#124;")
		case '\\', '`', '*', '[', ']', '~':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// code is a code span; text that holds a backtick becomes plain text.
func code(s string) string {
	s = Clean(s)
	if s == "" {
		return ""
	}
	if strings.ContainsAny(s, "`|") {
		return md(s)
	}
	return "`" + s + "`"
}

func (m *markdown) head(r *diag.Report) {
	v := &r.Verdict
	st := OutcomeStatus(v.Outcome)
	m.line("## %s %s: %s", st.Symbol(), md(string(v.Outcome)), md(strings.TrimPrefix(Headline(&r.Subject), "preflight ")))
	m.line("")
	if how := r.Run.EndedBy.Words(); how != "" {
		m.line("**%s**", md(how))
		m.line("")
	}
	if v.FirstFailedHop != "" {
		m.line("First failed hop: %s", code(string(v.FirstFailedHop)))
		m.line("")
	}
	if v.Because != "" {
		m.line("- Not decided: %s", md(v.Because))
		m.line("  - Owner: %s", md(v.Owner))
	}
	if b := v.Blame; b != nil {
		m.blame("Blame", b, v.Confidence, v.Proof, v.Symptoms, v.Owner)
		if v.Reason != "" && v.Reason != diag.ReasonNone {
			m.line("- User state: %s, reason %s %s", code(string(v.UserState)), code(string(v.Reason)), md(v.Severity))
		}
	}
	for i := range v.OtherFindings {
		b := &v.OtherFindings[i]
		m.blame("Also", b, b.Confidence, b.Proof, b.Symptoms, b.Owner)
	}
	m.line("")
}

func (m *markdown) blame(label string, b *diag.Blame, c diag.Confidence, pr *diag.Proof, symptoms []diag.HopID, owner string) {
	m.line("- %s: %s %s %s", label, code(string(b.Hop)), code(string(b.Signal)), md(string(c)))
	if b.Text != "" {
		m.line("  - %s", md(b.Text))
	}
	if pr != nil {
		m.line("  - Proof: %s", md(pr.Text))
	}
	if len(symptoms) > 0 {
		names := make([]string, len(symptoms))
		for i, s := range symptoms {
			names[i] = code(string(s))
		}
		m.line("  - Symptoms: %s", strings.Join(names, ", "))
	}
	if owner != "" {
		m.line("  - Owner: %s", md(owner))
	}
}

func (m *markdown) hops(r *diag.Report) {
	m.line("| # | status | hop | operator | node | of budget | what was seen |")
	m.line("|--:|---|---|---|---|--:|---|")
	parent := parents(r)
	for i := range r.Hops {
		h := &r.Hops[i]
		row := Done(h)
		seen := md(said(&h.Finding))
		if by, ok := parent[h.ID]; ok {
			seen = "follows from " + code(string(by))
		}
		m.line("| %d | %s | %s | %s | %s | %s | %s |", i+1, md(row.State.Text), code(string(h.ID)), md(row.Operator.Text), md(row.Node.Text), row.Time.Text, seen)
	}
	m.line("")
	m.line("%s", Counts(r.Hops))
	m.line("")
}

func (m *markdown) next(v *diag.Verdict) {
	if len(v.Recovery) == 0 {
		return
	}
	m.line("### Next")
	m.line("")
	for i, s := range v.Recovery {
		m.line("%d. %s", i+1, mdStep(s))
	}
	if v.RepairProof != "" {
		m.line("")
		m.line("The repair holds when this passes: %s", code(v.RepairProof))
	}
	m.line("")
}

// mdStep keeps a step's backticks as code spans.
func mdStep(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			b.WriteString(code(part))
		} else {
			b.WriteString(md(part))
		}
	}
	return b.String()
}

func (m *markdown) details(r *diag.Report) {
	v := &r.Verdict
	if len(v.RuledOut) > 0 {
		m.line("### Ruled out")
		m.line("")
		for _, s := range v.RuledOut {
			m.line("- %s", md(s))
		}
		m.line("")
	}
	m.line("Run %s, correlation id %s, %s.", code(r.Run.ID), code(r.Run.CorrelationID), r.Run.DurationMS.Words())
	if len(r.Evidence) > 0 {
		m.line("")
		m.line("### Recorded by the platform")
		m.line("")
		for i := range r.Evidence {
			m.line("- %s", md(evidenceLine(&r.Evidence[i])))
		}
		if r.EvidenceCut {
			m.line("- ...; %s", moreEvidence)
		}
	}
	if len(r.Facts) == 0 {
		return
	}
	m.line("")
	m.line("### Measurements")
	m.line("")
	for i := range r.Facts {
		f := &r.Facts[i]
		word := "passes"
		if f.Failure != diag.OK {
			word = string(f.Failure)
		}
		m.line("- %s from %s, %s: %s", code(f.ID), md(f.Vantage), f.DurationMS.Words(), code(word))
		for _, l := range Detail(f) {
			m.line("  - %s", md(l))
		}
	}
}
