// Package render turns the report of drills into bytes. It is pure: no clock, no environment, no terminal. Like
// diag/render, whose formats it uses, it draws with package page. A state is always shown as a word and a symbol;
// color only adds to them.
//
// It decides nothing. It shows only what the report contains, and never draws something that was not seen as if it
// had been. Its callers are cmd/gpuaasctl and tests.
package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Formats lists the formats of a report of drills, for help and completion. Table is one line per drill, or the
// page of a single drill; wide is one line per drill with every column; full is everything about each drill.
var Formats = [...]render.Format{
	render.Table, render.Wide, render.Full, render.Short, render.JSON, render.JUnit, render.Markdown,
}

// Report writes r in the format of o. It fails only if w does, or on an unknown format.
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
	_, err := w.Write(page.Text(o.Layout(), s.Blocks...))
	return err
}

func unknown(f render.Format) error {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return fmt.Errorf("no output format %q for drills (one of %s)", f, strings.Join(names, ", "))
}

// sheet is the document about the drills.
type sheet struct{ page.Doc }

// clean escapes text from untrusted sources.
func clean[T ~string](s T) string { return page.Clean(string(s)) }
