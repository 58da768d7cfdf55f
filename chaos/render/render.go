// Package render turns the report of drills into bytes. It is pure, as diag/render is, whose pages and symbols it uses:
// no clock, no environment, no terminal. A state is always a word and a symbol, colour only adds.
//
// It decides nothing. What a report does not say is not said here, and what was not seen is never drawn as if it had been.
// Callers are cmd/gpuaasctl and tests.
package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/diag/render"
)

// Formats lists what a report of drills can be written as, for help and completion. Table is one line for each drill, or
// the whole of a single one; wide is the whole of each.
var Formats = [...]render.Format{render.Table, render.Wide, render.Short, render.JSON, render.JUnit, render.Markdown}

// Report writes r in the format of o. It fails only when w does, or on an unknown format.
func Report(w io.Writer, r *drill.Report, o render.Options) error {
	switch o.Format {
	case render.JSON:
		return render.WriteJSON(w, r)
	case render.JUnit:
		return writeJUnit(w, r)
	case render.Markdown:
		return writeMarkdown(w, r)
	}
	p := &page{render.NewDocument(o)}
	switch o.Format {
	case render.Table, "":
		if len(r.Drills) == 1 && len(r.NotRun) == 0 {
			p.whole(r)
		} else {
			p.matrix(r)
		}
	case render.Wide:
		p.whole(r)
	case render.Short:
		p.short(r)
	default:
		return unknown(o.Format)
	}
	return p.Flush(w)
}

func unknown(f render.Format) error {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = string(f)
	}
	return fmt.Errorf("no output format %q for drills (one of %s)", f, strings.Join(names, ", "))
}

// page is a page that knows how a drill is written.
type page struct{ *render.Document }

// clean makes text from elsewhere harmless.
func clean[T ~string](s T) string { return render.Clean(string(s)) }
