// Package render turns reports, plans and hop lists into bytes: text, Markdown and HTML from the blocks of package
// page. It is pure: no clock, no environment, no terminal; the caller chooses width and colour. Status is always a
// word and a symbol, colour only adds.
//
// It decides nothing: everything in its output is in the report. Callers are cmd/gpuaasctl, its live table, and
// tests.
package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/page"
)

// Format names a way to write.
type Format string

const (
	Table    Format = "table"    // one row per hop, then the answer in at most AnswerLines lines
	Wide     Format = "wide"     // table with more columns and every row, of which nothing is cut
	Full     Format = "full"     // everything: each step and its measurements, and the complete verdict
	Short    Format = "short"    // one line
	JSON     Format = "json"     // the report as one document
	NDJSON   Format = "ndjson"   // one line per hop, then one with the verdict
	JUnit    Format = "junit"    // Jenkins/Surefire: testsuite = node, testcase = hop
	Markdown Format = "markdown" // GitHub step summary
	HTML     Format = "html"     // one page for a browser, which needs nothing else
)

// Formats lists every format, for help and completion.
var Formats = [...]Format{Table, Wide, Full, Short, JSON, JUnit, NDJSON, Markdown, HTML}

// ParseFormat returns an error for a name that is not a format.
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
	Width  int    // columns of the terminal; 0 is a pipe, on which nothing is wrapped and nothing is cut
	Height int    // rows of the terminal; 0: it is not known, and no row is folded
	Color  bool   // the caller has looked at NO_COLOR and at the terminal
	ASCII  bool   // for a locale without UTF-8: symbols and foreign letters become ASCII, one column each
	From   string // the file that a command line names for the document; "": its run names it
	FailOn string // what else a gate stops at, which JUnit then counts: FailOnWarn, FailOnRegression
}

// What a gate may stop at beside a failed hop and a walk that decides nothing.
const (
	FailOnWarn       = "warn"
	FailOnRegression = "regression"
)

// Report writes r in the format of o. It fails only when w does, or on an unknown format.
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

// sheet is a document about a report.
type sheet struct {
	page.Doc
	o Options
}

// write writes the sheet in one go. It fails only when w does.
func (s *sheet) write(w io.Writer) error {
	_, err := w.Write(page.Text(s.o.Look(), s.Blocks...))
	return err
}

// Look is how a page is drawn.
func (o Options) Look() page.Look { return page.Look{Width: o.Width, Color: o.Color, ASCII: o.ASCII} }

// all reports whether lists are wanted whole.
func (o Options) all() bool { return o.Format == Wide || o.Format == Full }
