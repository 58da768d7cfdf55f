// Package render turns reports, plans and hop lists into bytes: text, Markdown and HTML from the blocks of package
// page. It is pure: it uses no clock, no environment and no terminal; the caller chooses width and colour. A status is
// always a word and a symbol; colour adds nothing else.
//
// It decides nothing: everything in its output is in the report. Callers are cmd/gpuaasctl, its live table, and tests.
package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// Format names a way to write.
type Format string

const (
	Table    Format = "table"    // one row per hop, then the answer in at most AnswerLines lines
	Wide     Format = "wide"     // table with more columns and every row, never truncated
	Full     Format = "full"     // everything: each step and its measurements, and the complete verdict
	Short    Format = "short"    // one line
	JSON     Format = "json"     // the report as one document
	NDJSON   Format = "ndjson"   // one line per hop, then one with the verdict
	JUnit    Format = "junit"    // Jenkins/Surefire: testsuite = node, testcase = hop
	Markdown Format = "markdown" // GitHub step summary
	HTML     Format = "html"     // one self-contained page for a browser
)

// Formats lists every format, for help and completion.
var Formats = [...]Format{Table, Wide, Full, Short, JSON, JUnit, NDJSON, Markdown, HTML}

// ParseFormat returns the format of that name, or an error.
func ParseFormat(name string) (Format, error) {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		if string(f) == name {
			return f, nil
		}
		names[i] = string(f)
	}
	return "", fmt.Errorf("no output format %q (one of %s)", name, strings.Join(names, ", "))
}

// Options are the format and the page's dimensions.
type Options struct {
	Format Format // "" is Table
	Width  int    // columns of the terminal; 0: a pipe, where nothing is wrapped or truncated
	Height int    // rows of the terminal; 0: not known, and no row is folded
	Color  bool   // set by the caller, from NO_COLOR and the terminal
	ASCII  bool   // for a locale without UTF-8: symbols and non-ASCII letters become ASCII of the same width
	From   string // the report's file, for commands that read it; "": use the run id
	FailOn string // further conditions for which a gate fails, counted by JUnit: FailOnWarn, FailOnRegression
}

// Conditions for which a gate may fail, besides a failed hop and a walk that decides nothing.
const (
	FailOnWarn       = "warn"
	FailOnRegression = "regression"
)

// Report writes r in the format of o. It fails only if w does, or for an unknown format.
func Report(w io.Writer, r *diag.Report, o Options) error {
	switch o.Format {
	case JSON:
		return WriteJSON(w, r)
	case NDJSON:
		return writeNDJSON(w, r)
	case JUnit:
		return writeJUnit(w, r, o.FailOn)
	case Markdown:
		_, err := w.Write(page.Markdown(summary(r)...))
		return err
	case HTML:
		_, err := w.Write(page.HTML(summary(r)...))
		return err
	}
	s := &sheet{o: o}
	switch o.Format {
	case Table, "", Wide:
		s.page(r)
	case Full:
		s.full(r)
	case Short:
		o.Width = 0
		s = &sheet{o: o}
		s.Add(shortLine(r))
	default:
		_, err := ParseFormat(string(o.Format))
		return err
	}
	return s.write(w)
}

// sheet is a document under construction, about a report.
type sheet struct {
	page.Doc
	o Options
}

// write writes the sheet in one Write. It fails only if w does.
func (s *sheet) write(w io.Writer) error {
	_, err := w.Write(page.Text(s.o.Layout(), s.Blocks...))
	return err
}

// Layout returns how a page is drawn.
func (o Options) Layout() page.Layout {
	return page.Layout{Width: o.Width, Color: o.Color, ASCII: o.ASCII}
}

// all reports whether lists are shown in full.
func (o Options) all() bool { return o.Format == Wide || o.Format == Full }
