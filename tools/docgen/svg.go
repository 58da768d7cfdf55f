package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Dimensions of the picture, in pixels. Every run of text is stretched to its columns, so that the table is aligned in
// whatever monospaced font the reader has.
const (
	cellWide = 8
	lineHigh = 18
	margin   = 16
	barHigh  = 34
	columns  = 80
)

// classes are the picture's class names for the colour codes of package render.
var classes = map[string]string{"32": "good", "33": "warn", "1;31": "bad", "35": "unsure", "2": "faint", "1": "strong"}

const style = `text{font:13px ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",Consolas,monospace;fill:#d8dee6;white-space:pre}` +
	`.good{fill:#5fd38d}.warn{fill:#e5c07b}.bad{fill:#ff6b6b;font-weight:bold}.unsure{fill:#c792ea}.faint{fill:#8a94a3}` +
	`.strong{font-weight:bold;fill:#fff}`

// svg draws a terminal: lines of text with colour codes, under a bar with the command line.
func svg(ansi, command string) []byte {
	lines := split(ansi)
	b := terminal(len(lines), command)
	drawLine(b, command, -1)
	for i, line := range lines {
		drawLine(b, line, i)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// terminal begins the picture of an empty terminal.
func terminal(rows int, label string) *bytes.Buffer {
	wide, high := columns*cellWide+2*margin, barHigh+rows*lineHigh+2*margin
	var b bytes.Buffer
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		wide, high, wide, high, html.EscapeString(label))
	fmt.Fprintf(&b, "<style>%s</style>\n", style)
	fmt.Fprintf(&b,
		`<rect width="%d" height="%d" rx="8" fill="#14181f"/><rect width="%d" height="%d" rx="8" fill="#232a35"/>`+"\n", wide,
		high, wide, barHigh)
	return &b
}

// drawLine writes a line of the terminal; row -1 is the command in its bar.
func drawLine(b *bytes.Buffer, line string, row int) {
	if row < 0 {
		fmt.Fprintf(b, `<text class="faint" x="%d" y="22" style="font-size:11px">$ %s</text>`+"\n", margin,
			html.EscapeString(line))
		return
	}
	column := 0
	for _, r := range runs(line) {
		draw(b, r, column, barHigh+margin+row*lineHigh+12)
		column += page.Width(r.text)
	}
}

// draw writes one run without the spaces around it, at its columns.
func draw(b *bytes.Buffer, r textRun, column, y int) {
	text := strings.TrimLeft(r.text, " ")
	column += utf8.RuneCountInString(r.text) - utf8.RuneCountInString(text)
	text = strings.TrimRight(text, " ")
	if text == "" {
		return
	}
	class := ""
	if r.class != "" {
		class = ` class="` + r.class + `"`
	}
	fmt.Fprintf(b, `<text%s x="%d" y="%d" textLength="%d" xml:space="preserve">%s</text>`+"\n",
		class, margin+column*cellWide, y, utf8.RuneCountInString(text)*cellWide, html.EscapeString(text))
}

// textRun is text in one style.
type textRun struct{ text, class string }

// runs splits a line at its colour codes.
func runs(line string) []textRun {
	var out []textRun
	class := ""
	for line != "" {
		before, rest, found := strings.Cut(line, "\x1b[")
		if before != "" {
			out = append(out, textRun{before, class})
		}
		if !found {
			break
		}
		code, after, _ := strings.Cut(rest, "m")
		class, line = classes[code], after
	}
	return out
}
