package cmdutil

import (
	"bytes"
	"cmp"
	"fmt"
	"io"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// RenderOptions returns how stdout is drawn: the terminal's width and height, whether to use colour, and the character
// set of the locale.
func (a *App) RenderOptions(format string) render.Options {
	locale := cmp.Or(a.Env("LC_ALL"), a.Env("LC_CTYPE"), a.Env("LANG"))
	width, height := a.Size(a.Stdout)
	return render.Options{
		Format: render.Format(format), Width: width, Height: height, Color: a.colour(a.Stdout),
		ASCII: IsTerminal(a.Stdout) && !render.UTF8(locale),
	}
}

// Liner is a document that can be written one JSON object at a time: each line is also a document.
type Liner interface{ Lines() []diag.Document }

// Show writes a command's one document to stdout, in the format of o. text writes it in every format that is not JSON.
func (a *App) Show(doc diag.Document, o render.Options, text func(w io.Writer, o render.Options) error) error {
	var b bytes.Buffer
	var err error
	lines, ok := doc.(Liner)
	switch {
	case o.Format == render.JSON:
		err = render.WriteJSON(&b, doc)
	case o.Format == render.NDJSON && ok:
		err = render.WriteLines(&b, lines.Lines())
	default:
		err = text(&b, o)
	}
	if err != nil {
		return fmt.Errorf("write the output as %s: %w", o.Format, err)
	}
	return a.Write(b.Bytes())
}

// ShowReport writes r. failOn is an additional condition for which the gate fails, besides a failed hop.
func (a *App) ShowReport(r *diag.Report, format, failOn string) error {
	o := a.RenderOptions(format)
	o.FailOn = failOn
	return a.Show(r, o, func(w io.Writer, o render.Options) error { return render.Report(w, r, o) })
}

// ShowPage is Show for a document whose text is blocks.
func (a *App) ShowPage(doc diag.Document, format string, blocks ...page.Block) error {
	return a.Show(doc, a.RenderOptions(format), func(w io.Writer, o render.Options) error {
		text := page.Markdown(blocks...)
		if o.Format != render.Markdown {
			text = page.Text(page.Layout{Width: o.Width, Color: o.Color, ASCII: o.ASCII}, blocks...)
		}
		_, err := w.Write(text)
		return err
	})
}

// Table is rows of plain cells; the first row has the titles, and an empty cell is "-".
func Table(rows [][]string) page.Table {
	t := page.Table{Columns: page.Titles(rows[0]...)}
	for _, row := range rows[1:] {
		t.Rows = append(t.Rows, page.Cells(row...))
	}
	return t
}
