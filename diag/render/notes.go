package render

import "io"

// Note is a paragraph: under a label or, without one, from the margin on. With a Step it is an instruction of that
// number, and what stands between backticks are commands to paste, on lines of their own.
type Note struct {
	Label string
	Text  string
	Step  int
	Style Style
}

// Notes writes paragraphs as a walk's verdict has them, for commands whose document is not a report.
func Notes(w io.Writer, notes []Note, o Options) error {
	p := newPage(o)
	for _, n := range notes {
		switch {
		case n.Step > 0:
			p.step(n.Label, n.Step, n.Text)
		case n.Label == "":
			p.wrapped(0, "", Clean(n.Text), n.Style)
		default:
			p.field(n.Label, Clean(n.Text), n.Style)
		}
	}
	return p.flush(w)
}
