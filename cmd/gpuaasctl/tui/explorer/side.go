package explorer

import (
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// side is the right side as lines, in sections.
type side struct {
	lines  []string // with colours
	plain  []string // to search
	titles []string
	starts []int // the first line of each section
}

// sides are the right sides of items at one width, rendered when first needed.
type sides struct {
	width int
	of    map[int]side
}

// match is a line of an item that has the searched text.
type match struct{ item, line int }

// newSide draws sections.
func newSide(o render.Options, sections []render.Section) side {
	var s side
	for _, part := range sections {
		s.titles, s.starts = append(s.titles, part.Title), append(s.starts, len(s.lines))
		rule := strings.Repeat("─", max(o.Width-page.Width(page.Clean(part.Title))-4, 0))
		head := page.Line{
			{Text: "── ", Style: page.Faint}, {Text: part.Title, Style: page.Strong}, {Text: " " + rule, Style: page.Faint},
		}
		text := page.Text(o.Layout(), append([]page.Block{head}, part.Blocks...)...)
		s.add(strings.Split(strings.TrimRight(string(text), "\n"), "\n"))
		s.add([]string{""})
	}
	return s
}

func (s *side) add(lines []string) {
	for _, l := range lines {
		s.lines, s.plain = append(s.lines, l), append(s.plain, ansi.Strip(l))
	}
}

// start returns the first line of a section; after the last section, that of the last.
func (s *side) start(n int) int {
	if len(s.starts) == 0 {
		return 0
	}
	return s.starts[min(max(n, 0), len(s.starts)-1)]
}

// section returns the section of a line.
func (s *side) section(line int) int {
	n := 0
	for i, at := range s.starts {
		if at <= line {
			n = i
		}
	}
	return n
}

// has reports whether a line has a text, or the beginning of one that continues on the next line.
func (s *side) has(line int, text string) bool {
	here := strings.ToLower(s.plain[line])
	if strings.Contains(here, text) {
		return true
	}
	if line+1 == len(s.plain) {
		return false
	}
	next := strings.TrimSpace(strings.ToLower(s.plain[line+1]))
	return !strings.Contains(next, text) && strings.Contains(strings.TrimRight(here, " ")+" "+next, text)
}

// item returns the right side of an item.
func (m *model) item(i int) side {
	o := m.options()
	if m.cache.of == nil || m.cache.width != o.Width {
		*m.cache = sides{width: o.Width, of: map[int]side{}}
	}
	s, ok := m.cache.of[i]
	if !ok {
		s = newSide(o, m.doc.Items[i].Sections(o))
		m.cache.of[i] = s
	}
	return s
}

// joined returns an item with its repeated measurement above the report's.
func (i *Item) joined(fresh *Item) Item {
	now := *i
	now.report = i
	now.Note = "now " + fresh.Mark.Text
	now.Words = append(append([]string{}, fresh.Words...), i.Words...)
	now.Sections = func(o render.Options) []render.Section {
		sections := fresh.Sections(o)
		for k := range sections {
			sections[k].Title = "now " + sections[k].Title
		}
		return append(sections, i.Sections(o)...)
	}
	return now
}

// words returns the selected item's words that have a meaning: its own, then those of the text.
func (m *model) words() []string {
	text := strings.Join(m.item(m.chosen).plain, "\n")
	all := append([]string{}, m.doc.Items[m.chosen].Words...)
	all = append(all, strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && !unicode.IsLower(r) && !unicode.IsDigit(r)
	})...)
	var found []string
	for n, w := range all {
		own := n < len(m.doc.Items[m.chosen].Words)
		if (own || strings.Contains(w, "_")) && !slices.Contains(found, w) && m.o.Explain(w) != nil {
			found = append(found, w)
		}
	}
	return found
}

// find searches every item for the text, and shows the first match from here on.
func (m *model) find() {
	m.matches, m.match = m.matching(), -1
	for n, x := range m.matches {
		if x.item > m.chosen || (x.item == m.chosen && x.line >= m.at) {
			m.match = n - 1
			break
		}
	}
	m.toMatch(1)
}

// matching returns the lines of all items that have the searched text.
func (m *model) matching() (found []match) {
	text := strings.ToLower(strings.TrimSpace(m.query))
	if text == "" {
		return nil
	}
	for i := range m.doc.Items {
		s := m.item(i)
		for line := range s.plain {
			if s.has(line, text) {
				found = append(found, match{i, line})
			}
		}
	}
	return found
}

// toMatch moves by that many matches.
func (m *model) toMatch(by int) {
	n := len(m.matches)
	switch {
	case strings.TrimSpace(m.query) == "":
		m.status = "nothing is searched: press / and type a text"
		return
	case n == 0:
		m.status = "nothing here has " + m.query
		return
	}
	m.over = overNothing
	m.match = ((m.match+by)%n + n) % n
	m.chosen = m.matches[m.match].item
	m.show(m.matches[m.match].line)
}
