// Package page is a document for people: blocks, written as text for a terminal or a pipe, as Markdown, and as HTML.
// Only this package lays out tables, wraps prose and commands, and gives a status its symbol and style.
//
// It does not know reports and decides nothing; it reads no clock, environment or terminal. Callers may pass text from
// any source: every block cleans its text when it is written. Its callers are the renderers, the commands and the live
// views.
package page

import (
	"bytes"
	"strconv"
	"strings"
)

// Layout is how text is written.
type Layout struct {
	Width int  // columns of the terminal; 0: a pipe, where nothing is wrapped or truncated
	Color bool // set by the caller, from NO_COLOR and the terminal
	ASCII bool // for a locale without UTF-8: symbols and non-ASCII letters become ASCII of the same width
}

// Block is one part of a document; see the types of this package.
type Block interface {
	text(w *writer)
	markdown(m *markdown)
	html(h *hypertext)
}

// Heading is the title of what follows.
type Heading struct {
	Text  string
	Level int   // in Markdown; 0 means 2
	Style Style // in text; Plain means Strong
}

// Para is a paragraph. Its text is indented to the right of its lead.
type Para struct {
	Lead   string
	Text   string
	Indent int // columns, of text
	Style  Style
}

// Line is a row of pieces. A terminal truncates it at its width.
type Line []Cell

// Blank is an empty line; Markdown separates blocks by itself.
type Blank struct{}

// Fields are labelled values, each wrapped with a hanging indent.
type Fields []Field

// Field is one labelled value; without text and command it is not written.
type Field struct {
	Label   string // "" continues the previous label
	Lead    string // written before the text, which is indented after it: a symbol, or a name padded to a column
	Text    string
	Style   Style  // style of the text
	Command string // to paste, on separate lines after the text
}

// Steps are numbered instructions. Text between backticks is a command to paste.
type Steps struct {
	Label string
	First int // the number of the first step; 0 means 1
	Texts []string
}

// Code is text that is written unchanged, line by line.
type Code string

// Fold is optional detail: Markdown and HTML fold it under its title, and text writes it below the title.
type Fold struct {
	Title  string
	Blocks []Block
	Open   bool // HTML begins with it unfolded
}

// Doc collects blocks.
type Doc struct{ Blocks []Block }

// Add appends blocks; adjacent fields are merged into one list.
func (d *Doc) Add(blocks ...Block) {
	for _, b := range blocks {
		if more, ok := b.(Fields); ok && len(d.Blocks) > 0 {
			if list, ok := d.Blocks[len(d.Blocks)-1].(Fields); ok {
				d.Blocks[len(d.Blocks)-1] = append(list[:len(list):len(list)], more...)
				continue
			}
		}
		d.Blocks = append(d.Blocks, b)
	}
}

// Field appends one labelled value, unless its text is empty.
func (d *Doc) Field(label, text string, st Style) {
	if text != "" {
		d.Add(Fields{{Label: label, Text: text, Style: st}})
	}
}

// Text writes blocks as lines, each terminated, without trailing blanks.
func Text(l Layout, blocks ...Block) []byte {
	w := newWriter(l)
	for _, b := range blocks {
		b.text(w)
	}
	if l.ASCII {
		return toASCII(w.b.Bytes())
	}
	return w.b.Bytes()
}

// Cell is a piece of a line or of a table's row.
type Cell struct {
	Text  string
	Style Style
}

// minWidth keeps columns from vanishing; a narrower terminal wraps lines by itself.
const minWidth = 40

// readable is the maximum width of prose, also on a wider terminal.
const readable = 120

// labelWidth is the column in which the values of fields begin.
const labelWidth = 10

// writer collects lines of text.
type writer struct {
	b    bytes.Buffer
	look Layout
}

func newWriter(l Layout) *writer {
	if l.Width > 0 {
		l.Width = max(l.Width, minWidth)
	}
	return &writer{look: l}
}

// width returns the number of columns left after an indentation, at most limit unless limit is 0; 0 means unlimited.
func (w *writer) width(indent, limit int) int {
	if w.look.Width == 0 {
		return 0
	}
	n := w.look.Width
	if limit > 0 {
		n = min(n, limit)
	}
	return max(n-indent, 1)
}

// begin starts a line.
func (w *writer) begin(indent int) { w.b.WriteString(spaces(indent)) }

// end ends a line, without trailing blanks.
func (w *writer) end() {
	w.b.Truncate(len(bytes.TrimRight(w.b.Bytes(), " ")))
	w.b.WriteByte('\n')
}

// put appends clean text in a style.
func (w *writer) put(s string, st Style) {
	if !w.look.Color || st == Plain || s == "" {
		w.b.WriteString(s)
		return
	}
	w.b.WriteString("\x1b[" + sgr[st] + "m" + s + "\x1b[0m")
}

// hang writes text to the right of a lead, with later lines indented to the text.
func (w *writer) hang(indent int, lead, text string, st Style) {
	in := indent + Width(lead)
	if room := w.width(in, readable); room > 0 && room < leastRoom && text != "" {
		w.begin(indent)
		w.put(lead, Faint)
		w.end()
		indent, lead, in = belowIndent, "", belowIndent
	}
	lines := Wrap(text, w.width(in, readable))
	if len(lines) == 0 {
		lines = []string{""}
	}
	for i, l := range lines {
		if i == 0 {
			w.begin(indent)
			w.put(lead, Faint)
		} else {
			w.begin(in)
		}
		w.put(l, st)
		w.end()
	}
}

// command writes a command after a lead, which may be blank, so that it can be pasted.
func (w *writer) command(lead, s string) {
	for i, l := range WrapCommand(s, w.width(Width(lead)+2, 0)) {
		w.begin(0)
		if i == 0 {
			w.put(lead+"$ ", Faint)
		} else {
			w.begin(Width(lead) + 2)
		}
		w.put(l, Strong)
		w.end()
	}
}

func (h Heading) text(w *writer) {
	st := h.Style
	if st == Plain {
		st = Strong
	}
	w.hang(0, "", Clean(h.Text), st)
}

func (p Para) text(w *writer) {
	if p.Text != "" {
		w.hang(p.Indent, Clean(p.Lead), Clean(p.Text), p.Style)
	}
}

func (l Line) text(w *writer) {
	w.begin(0)
	left, bound := w.width(0, 0), w.look.Width > 0
	for _, c := range l {
		s := Clean(c.Text)
		if bound {
			s = Cut(s, left)
			left -= Width(s)
		}
		w.put(s, c.Style)
	}
	w.end()
}

func (Blank) text(w *writer) { w.b.WriteByte('\n') }

func (f Fields) text(w *writer) {
	at := labelWidth
	for _, field := range f {
		at = max(at, Width(Clean(field.Label))+1)
	}
	for _, field := range f {
		lead := Pad(Clean(field.Label), at) + Clean(field.Lead)
		if field.Text != "" {
			w.hang(0, lead, Clean(field.Text), field.Style)
			lead = spaces(Width(lead))
		}
		if field.Command != "" {
			w.command(lead, Clean(field.Command))
		}
	}
}

func (s Steps) text(w *writer) {
	label := s.Label
	for i, text := range s.Texts {
		lead := Pad(Clean(label), labelWidth) + s.number(i)
		label = ""
		for k, part := range strings.Split(text, "`") {
			if k%2 == 1 {
				w.command(lead, Clean(part))
			} else if part = strings.TrimSpace(strings.TrimLeft(part, ",; ")); part != "" {
				w.hang(0, lead, Clean(part), Plain)
			} else {
				continue
			}
			lead = spaces(Width(lead))
		}
	}
}

func (s Steps) number(i int) string { return strconv.Itoa(max(s.First, 1)+i) + ". " }

func (c Code) text(w *writer) {
	for line := range strings.Lines(string(c)) {
		w.begin(2)
		w.put(Clean(strings.TrimRight(line, "\r\n")), Plain)
		w.end()
	}
}

func (f Fold) text(w *writer) {
	w.hang(0, "", Clean(f.Title), Strong)
	for _, b := range f.Blocks {
		b.text(w)
	}
}
