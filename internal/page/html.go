package page

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html"
	"strconv"
	"strings"
	"unicode"
)

// HTML writes blocks as one page for a browser. It needs no network and no script, and its content security policy
// forbids both, and all styles but its own. Foreign text appears only as text: no attribute contains any, except for
// the titles of columns.
func HTML(blocks ...Block) []byte {
	sum := sha256.Sum256([]byte(htmlStyle))
	h := &hypertext{}
	h.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-` +
		base64.StdEncoding.EncodeToString(sum[:]) + `'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>` + cmp.Or(htmlHead(blocks), "gpuaasctl") + `</title>
<style>` + htmlStyle + `</style>
</head>
<body>
<main>
`)
	for _, b := range blocks {
		b.html(h)
	}
	h.put("</main>\n</body>\n</html>\n")
	return []byte(h.b.String())
}

// htmlStyle is for screens from a phone's on, in light and in dark, and for paper.
//
//go:embed html.css
var htmlStyle string

// htmlHead is the first heading.
func htmlHead(blocks []Block) string {
	for _, b := range blocks {
		if h, ok := b.(Heading); ok {
			return htmlText(h.Text)
		}
	}
	return ""
}

// hypertext collects elements. Callers pass markup from this file; foreign text goes through htmlText.
type hypertext struct{ b strings.Builder }

func (h *hypertext) put(markup string) { h.b.WriteString(markup) }

// element adds text as an element with a style, on its own line; it adds nothing for empty text.
func (h *hypertext) element(name, text string, st Style) {
	if text = htmlText(text); text != "" {
		h.put("<" + name + htmlClass(st) + ">" + text + "</" + name + ">\n")
	}
}

// htmlText escapes text, also for use in a quoted attribute.
func htmlText(s string) string { return htmlEscaped(strings.TrimSpace(Clean(s))) }

// htmlEscaped escapes also what a CI system would execute that shows the page's source, see clean.Inert.
func htmlEscaped(s string) string { return strings.ReplaceAll(html.EscapeString(s), "##", "#&#35;") }

// htmlClass returns the attribute for a style.
func htmlClass(st Style) string {
	if st == Plain {
		return ""
	}
	return ` class="` + htmlClasses[st] + `"`
}

var htmlClasses = [...]string{
	Plain: "", Good: "good", Warning: "warning", Bad: "bad", Unsure: "unsure", Faint: "faint", Strong: "strong",
}

// htmlStep marks a step's text between backticks as commands, which one click selects as a whole.
func htmlStep(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			b.WriteString("<code>" + htmlText(part) + "</code>")
		} else {
			b.WriteString(htmlText(strings.TrimLeft(part, ",; ")))
		}
	}
	return b.String()
}

// html writes a heading. The page's title has level 1, which in Markdown is level 2.
func (d Heading) html(h *hypertext) {
	name := "h1"
	if d.Level > 2 {
		name = "h" + strconv.Itoa(d.Level-1)
	}
	h.element(name, d.Text, d.Style)
}

func (p Para) html(h *hypertext) {
	if p.Text != "" {
		h.element("p", p.Lead+p.Text, p.Style)
	}
}

func (l Line) html(h *hypertext) {
	h.put("<p>")
	for _, c := range l {
		h.put("<span" + htmlClass(c.Style) + ">" + htmlEscaped(Clean(c.Text)) + "</span>")
	}
	h.put("</p>\n")
}

func (Blank) html(*hypertext) {}

// html writes fields: a field without a label belongs to the previous label.
func (f Fields) html(h *hypertext) {
	label, open := "", false
	for _, field := range f {
		named := htmlText(field.Label) != ""
		if named {
			label = field.Label
		}
		text := htmlText(strings.TrimSpace(field.Lead) + " " + field.Text)
		if text == "" && field.Command == "" {
			continue
		}
		switch {
		case !open:
			h.put("<dl>\n<div>")
		case named:
			h.put("</div>\n<div>")
		}
		if named || !open {
			h.put("<dt>" + cmp.Or(htmlText(label), "–") + "</dt>\n")
		}
		open = true
		if text != "" {
			h.put("<dd" + htmlClass(field.Style) + ">" + text + "</dd>\n")
		}
		if field.Command != "" {
			h.put("<dd><code>" + htmlText(field.Command) + "</code></dd>\n")
		}
	}
	if open {
		h.put("</div>\n</dl>\n")
	}
}

func (s Steps) html(h *hypertext) {
	if len(s.Texts) == 0 {
		return
	}
	h.element("h2", s.Label, Plain)
	h.put(`<ol start="` + strconv.Itoa(max(s.First, 1)) + "\">\n")
	for _, text := range s.Texts {
		h.put("<li>" + htmlStep(text) + "</li>\n")
	}
	h.put("</ol>\n")
}

// html writes a table. On a narrow screen every row is a paragraph, with the titles of droppable columns before their
// values. Browsers then no longer treat these elements as a table, so each names its role.
func (t Table) html(h *hypertext) {
	t = t.cleaned()
	h.put("<table role=\"table\">\n")
	if t.titled() {
		h.put("<thead role=\"rowgroup\"><tr role=\"row\">")
		for _, c := range t.Columns {
			if c.Title == "" {
				h.put("<td></td>")
				continue
			}
			h.put(`<th role="columnheader" scope="col"` + htmlRight(c) + ">" + htmlText(c.Title) + "</th>")
		}
		h.put("</tr></thead>\n")
	}
	h.put("<tbody role=\"rowgroup\">\n")
	for _, r := range t.Rows {
		h.put("<tr role=\"row\">")
		for i, c := range r.Cells {
			h.put(`<td role="cell"` + htmlRight(t.Columns[i]) + htmlTitle(t.Columns[i], c) + ">")
			if text := htmlText(c.Text); c.Style == Plain {
				h.put(text)
			} else if text != "" {
				h.put("<span" + htmlClass(c.Style) + ">" + text + "</span>")
			}
			h.put("</td>")
		}
		h.put("</tr>\n")
		if len(r.Below) > 0 {
			h.put(`<tr role="row"><td role="cell" colspan="` + strconv.Itoa(len(t.Columns)) + "\">\n")
			for _, b := range r.Below {
				b.html(h)
			}
			h.put("</td></tr>\n")
		}
	}
	h.put("</tbody>\n</table>\n")
}

func htmlRight(c Column) string {
	if c.Right {
		return ` class="right"`
	}
	return ""
}

// htmlTitle returns the title attribute of a cell whose value needs its column's name.
func htmlTitle(column Column, c Cell) string {
	if column.Drop == 0 || strings.TrimSpace(c.Text) == "" {
		return ""
	}
	return ` data-title="` + htmlText(column.Title) + `"`
}

func (c Code) html(h *hypertext) {
	h.put("<pre>")
	for line := range strings.Lines(string(c)) {
		h.put(htmlLine(line) + "\n")
	}
	h.put("</pre>\n")
}

// htmlLine escapes a line of code; colons at its start would be a command to a CI system.
func htmlLine(s string) string {
	s = Clean(strings.TrimRight(s, "\r\n"))
	space := len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
	if strings.HasPrefix(s[space:], "::") {
		return s[:space] + "&#58;" + htmlEscaped(s[space+1:])
	}
	return htmlEscaped(s)
}

func (f Fold) html(h *hypertext) {
	open := ""
	if f.Open {
		open = " open"
	}
	h.put("<details" + open + "><summary>" + cmp.Or(htmlText(f.Title), "more") + "</summary>\n")
	for _, b := range f.Blocks {
		b.html(h)
	}
	h.put("</details>\n")
}
