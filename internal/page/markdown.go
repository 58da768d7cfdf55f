package page

import (
	"cmp"
	"strings"
)

// MarkdownCap is the maximum size of Markdown in bytes: GitHub refuses step summaries over 1 MiB, and a job may write
// other summaries as well.
const MarkdownCap = 900 << 10

// markdownSpare is reserved for the end of a page that is cut: open folds are closed.
const markdownSpare = 64

const markdownCut = "\nThe rest does not fit here; the JSON report has everything.\n"

// Markdown writes blocks for GitHub, up to MarkdownCap bytes; a longer page ends with a note.
func Markdown(blocks ...Block) []byte {
	m := &markdown{left: MarkdownCap - len(markdownCut) - markdownSpare}
	for _, b := range blocks {
		m.block(b)
	}
	if m.full {
		m.b.WriteString(markdownCut)
	}
	return []byte(m.b.String())
}

// markdown collects lines up to a size; the first line that does not fit ends it.
type markdown struct {
	b     strings.Builder
	left  int
	full  bool
	inner bool // the previous block needs an empty line after it
}

func (m *markdown) line(s string) {
	if len(s)+1 > m.left {
		m.full = true
	}
	if m.full {
		return
	}
	m.left -= len(s) + 1
	m.b.WriteString(s)
	m.b.WriteByte('\n')
}

// block writes one block, separated from the previous one by an empty line.
func (m *markdown) block(b Block) {
	switch b := b.(type) {
	case Blank:
		return
	case Para:
		if b.Text == "" {
			return
		}
	}
	if m.inner {
		m.line("")
	}
	m.inner = true
	b.markdown(m)
}

// Escaped escapes text for Markdown, also inside a table's cell. A site that shows it makes no link or mention of it:
// a space without width divides what sites look for after all escapes, such as @name.
func Escaped(s string) string {
	var b strings.Builder
	s = Clean(s)
	for i, r := range s {
		switch r {
		case '@':
			b.WriteString("@" + markdownNothing)
		case ':':
			b.WriteRune(r)
			if strings.HasPrefix(s[i:], "://") {
				b.WriteString(markdownNothing)
			}
		case '.':
			if hasSuffixFold(s[:i], "www") {
				b.WriteString(markdownNothing)
			}
			b.WriteRune(r)
		case '#', '-', '!':
			b.WriteRune(r)
			if refersTo(s[:i], r, s[i+1:]) {
				b.WriteString(markdownNothing)
			}
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

// markdownNothing is a space without width.
const markdownNothing = "&#8203;"

// refersTo reports whether a mark with a number behind it refers to an issue: #1, GH-1, or !1 for GitLab.
func refersTo(before string, mark rune, after string) bool {
	return after != "" && after[0] >= '0' && after[0] <= '9' && (mark != '-' || hasSuffixFold(before, "gh"))
}

func hasSuffixFold(s, end string) bool {
	return len(s) >= len(end) && strings.EqualFold(s[len(s)-len(end):], end)
}

// paragraph escapes text that begins a line, where some characters begin a list, a heading or a command: /close.
func paragraph(s string) string {
	if s = Escaped(strings.TrimSpace(s)); s != "" && strings.IndexByte("#+-=_:/", s[0]) >= 0 {
		return `\` + s
	}
	return s
}

// CodeSpan returns text as a code span, or as plain text if a span cannot hold it or a CI system would execute it.
func CodeSpan(s string) string {
	s = Clean(s)
	switch {
	case s == "":
		return ""
	case strings.ContainsAny(s, "`|"), strings.Contains(s, "##"):
		return Escaped(s)
	}
	return "`" + s + "`"
}

// StepMarkdown writes the parts of a step between backticks as code spans.
func StepMarkdown(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			b.WriteString(CodeSpan(part))
		} else {
			b.WriteString(Escaped(part))
		}
	}
	return b.String()
}

func (h Heading) markdown(m *markdown) {
	level := cmp.Or(h.Level, 2)
	m.line(strings.Repeat("#", level) + " " + Escaped(h.Text))
}

func (p Para) markdown(m *markdown) { m.line(paragraph(p.Lead + p.Text)) }

func (l Line) markdown(m *markdown) {
	var b strings.Builder
	for _, c := range l {
		b.WriteString(c.Text)
	}
	m.line(paragraph(b.String()))
}

func (Blank) markdown(*markdown) {}

func (f Fields) markdown(m *markdown) {
	for _, field := range f {
		text := Escaped(strings.TrimSpace(field.Lead) + " " + field.Text)
		if field.Command != "" {
			text += " " + CodeSpan(field.Command)
		}
		text = strings.TrimSpace(text)
		switch {
		case text == "":
		case field.Label == "":
			m.line("  - " + text)
		default:
			m.line("- **" + Escaped(field.Label) + "**: " + text)
		}
	}
}

func (s Steps) markdown(m *markdown) {
	if s.Label != "" {
		m.line("**" + Escaped(s.Label) + "**")
		m.line("")
	}
	for i, text := range s.Texts {
		m.line(s.number(i) + StepMarkdown(text))
	}
}

func (t Table) markdown(m *markdown) {
	t = t.cleaned()
	titles, rules := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i], rules[i] = Escaped(c.Title), "---"
		if c.Right {
			rules[i] = "--:"
		}
	}
	m.line("| " + strings.Join(titles, " | ") + " |")
	m.line("|" + strings.Join(rules, "|") + "|")
	for _, r := range t.Rows {
		texts := make([]string, len(t.Columns))
		for i, c := range r.Cells {
			texts[i] = Escaped(c.Text)
			if bold := strings.TrimSpace(texts[i]); c.Style == Strong && bold != "" {
				texts[i] = "**" + bold + "**"
			}
		}
		m.line("| " + strings.Join(texts, " | ") + " |")
	}
}

func (c Code) markdown(m *markdown) {
	fence := "```"
	for strings.Contains(string(c), fence) {
		fence += "`"
	}
	m.line(fence)
	for line := range strings.Lines(string(c)) {
		m.line(Clean(strings.TrimRight(line, "\r\n")))
	}
	m.line(fence)
}

func (f Fold) markdown(m *markdown) {
	m.line("<details><summary>" + Escaped(f.Title) + "</summary>")
	for _, b := range f.Blocks {
		m.block(b)
	}
	m.line("")
	m.line(foldEnd)
	if m.full {
		m.b.WriteString("\n" + foldEnd + "\n")
	}
}

const foldEnd = "</details>"
