// Package render turns the report of drills into bytes. It is pure, as diag/render is, whose formats it uses, and is
// drawn by package page: no clock, no environment, no terminal. A state is always a word and a symbol, colour only
// adds.
//
// It decides nothing. What a report does not have is not shown here, and what was not seen is never drawn as if it had
// been. Callers are cmd/gpuaasctl and tests.
package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/page"
)

// Formats lists what a report of drills can be written as, for help and completion. Table is one line for each drill,
// or the page of a single one; wide is one line for each with every column; full is the whole of each.
var Formats = [...]render.Format{
	render.Table, render.Wide, render.Full, render.Short, render.JSON, render.JUnit, render.Markdown,
}

// Report writes r in the format of o. It fails only when w does, or on an unknown format.
func Report(w io.Writer, r *drill.Report, o render.Options) error {
	s := &sheet{}
	switch o.Format {
	case render.JSON:
		return render.WriteJSON(w, r)
	case render.JUnit:
		return writeJUnit(w, r)
	case render.Markdown:
		s.summary(r)
		_, err := w.Write(page.Markdown(s.Blocks...))
		return err
	case render.Table, "":
		if len(r.Drills) == 1 && len(r.NotRun) == 0 {
			s.page(r, &r.Drills[0], o)
		} else {
			s.matrix(r, false)
		}
	case render.Wide:
		s.matrix(r, true)
	case render.Full:
		s.whole(r, o.Width)
	case render.Short:
		o.Width = 0
		s.short(r)
	default:
		return unknown(o.Format)
	}
	_, err := w.Write(page.Text(o.Look(), s.Blocks...))
	return err
}

func unknown(f render.Format) error {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return fmt.Errorf("no output format %q for drills (one of %s)", f, strings.Join(names, ", "))
}

// sheet is a document about drills.
type sheet struct{ page.Doc }

// clean makes text from elsewhere harmless.
func clean[T ~string](s T) string { return page.Clean(string(s)) }
