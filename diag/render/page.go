package render

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Style is a meaning that colour may add to; it is never the only sign of it.
type Style uint8

const (
	Plain Style = iota
	Good
	Warning
	Bad
	Unsure
	Faint
	Strong
)

// sgr is the terminal's code of each style: the eight basic colours, which every theme maps to something readable.
var sgr = [...]string{Plain: "", Good: "32", Warning: "33", Bad: "1;31", Unsure: "35", Faint: "2", Strong: "1"}

// StatusStyle is the style of a status.
func StatusStyle(s diag.Status) Style {
	switch s {
	case diag.StatusPass:
		return Good
	case diag.StatusWarn:
		return Warning
	case diag.StatusFail:
		return Bad
	case diag.StatusInconclusive:
		return Unsure
	}
	return Faint
}

// page collects lines of text for a terminal.
type page struct {
	b     bytes.Buffer
	o     Options
	width int
}

func newPage(o Options) *page {
	w := o.Width
	if w <= 0 {
		w = DefaultWidth
	}
	return &page{o: o, width: max(w, minWidth)}
}

// put appends clean text in a style.
func (p *page) put(s string, st Style) {
	if !p.o.Color || st == Plain || s == "" {
		p.b.WriteString(s)
		return
	}
	p.b.WriteString("\x1b[" + sgr[st] + "m")
	p.b.WriteString(s)
	p.b.WriteString("\x1b[0m")
}

func (p *page) newline() { p.b.WriteByte('\n') }

// line appends one line, cut to the page.
func (p *page) line(indent int, s string, st Style) {
	p.b.WriteString(spaces(indent))
	p.put(cut(s, p.width-indent), st)
	p.newline()
}

// flush writes the page in one go.
func (p *page) flush(w io.Writer) error {
	out := p.b.Bytes()
	if p.o.ASCII {
		out = toASCII(out)
	}
	_, err := w.Write(out)
	return err
}

// toASCII replaces every symbol of this package by an ASCII one of the same width, and other letters by "?".
func toASCII(in []byte) []byte {
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		r, n := utf8.DecodeRune(in)
		if r < utf8.RuneSelf {
			out = append(out, in[0])
			in = in[1:]
			continue
		}
		if c := asciiOf(r); c != 0 {
			out = append(out, c)
		} else {
			for range width(string(r)) {
				out = append(out, '?')
			}
		}
		in = in[n:]
	}
	return out
}

func asciiOf(r rune) byte {
	switch r {
	case '✔':
		return '+'
	case '✘':
		return 'x'
	case '–', '—', '─':
		return '-'
	case '·':
		return '.'
	case '…':
		return '~'
	case '›':
		return '>'
	case '└', '↳':
		return '`'
	case '≤':
		return '<'
	case '█':
		return '#'
	case '│':
		return '|'
	}
	return 0
}
