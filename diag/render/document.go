package render

import "io"

// Document is a page of text for what is no walk's report, made of the same parts as one. Text must be clean.
type Document struct{ p *page }

// NewDocument begins an empty one.
func NewDocument(o Options) *Document { return &Document{newPage(o)} }

// Width is the page's, in columns.
func (d *Document) Width() int { return d.p.width }

// Line writes one line, cut to the page.
func (d *Document) Line(indent int, s string, st Style) { d.p.line(indent, s, st) }

// Blank ends a paragraph.
func (d *Document) Blank() { d.p.newline() }

// Field writes one labelled value, wrapped under itself; nothing where the value is empty.
func (d *Document) Field(label, text string, st Style) { d.p.field(label, text, st) }

// Wrapped writes text behind a lead, later lines under the text.
func (d *Document) Wrapped(indent int, lead, text string, st Style) {
	d.p.wrapped(indent, lead, text, st)
}

// Cells writes pieces of a line beside each other, each in its style; the line is cut to the page.
func (d *Document) Cells(indent int, cells ...Cell) {
	d.p.b.WriteString(spaces(indent))
	left := d.p.width - indent
	for _, c := range cells {
		text := cut(c.Text, left)
		left -= width(text)
		d.p.put(text, c.Style)
	}
	d.p.newline()
}

// Uncut writes pieces of a line beside each other, however long that becomes: for who reads lines.
func (d *Document) Uncut(cells ...Cell) {
	for _, c := range cells {
		d.p.put(c.Text, c.Style)
	}
	d.p.newline()
}

// List writes rows under titles, no line wider than the page.
func (d *Document) List(columns []Column, rows [][]Cell) { d.p.list(columns, rows, nil) }

// Flush writes the page in one go. It fails only when w does.
func (d *Document) Flush(w io.Writer) error { return d.p.flush(w) }

// Columns is the number of terminal columns of clean text.
func Columns(s string) int { return width(s) }

// Cut shortens clean text to n columns, with an ellipsis where something was left out.
func Cut(s string, n int) string { return cut(s, n) }

// Pad is clean text, and spaces up to n columns.
func Pad(s string, n int) string { return s + spaces(n-width(s)) }

// MarkdownText makes text harmless in Markdown, also inside a table cell.
func MarkdownText(s string) string { return md(s) }

// MarkdownCode is text as a code span; text that a span cannot hold becomes plain text.
func MarkdownCode(s string) string { return code(s) }

// MarkdownPage writes lines of Markdown up to MarkdownCap, and says so where that cuts something off.
func MarkdownPage(w io.Writer, write func(line func(format string, args ...any))) error {
	m := &markdown{left: MarkdownCap - len(markdownCut)}
	write(m.line)
	return m.flush(w)
}
