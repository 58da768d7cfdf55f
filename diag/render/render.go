// Package render turns reports, plans and hop lists into bytes. It is pure: no clock, no environment, no terminal; the
// caller says how wide and whether in colour. Status is always a word and a symbol, colour only adds.
//
// It decides nothing: what a report does not say is not said here. Callers are cmd/gpuaasctl, its live table, and tests.
package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Format names a way to write.
type Format string

const (
	Table    Format = "table"    // one row per hop, then the verdict
	Wide     Format = "wide"     // table, with every step and what it measured
	Short    Format = "short"    // one line
	JSON     Format = "json"     // the report as one document
	NDJSON   Format = "ndjson"   // one line per hop, then one with the verdict
	JUnit    Format = "junit"    // Jenkins/Surefire: testsuite = node, testcase = hop
	Markdown Format = "markdown" // GitHub step summary
)

// Formats lists every format, for help and completion.
var Formats = [...]Format{Table, Wide, Short, JSON, NDJSON, JUnit, Markdown}

// ParseFormat refuses names that are no format.
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

// DefaultWidth is used where Options.Width is 0: what every terminal and most mail has.
const DefaultWidth = 80

// minWidth keeps columns from becoming nothing; narrower terminals wrap by themselves.
const minWidth = 40

// Options say how to write.
type Options struct {
	Format Format // "" is Table
	Width  int    // columns; 0 is DefaultWidth
	Color  bool   // the caller has looked at NO_COLOR and at the terminal
	ASCII  bool   // for a locale without UTF-8: symbols and foreign letters become ASCII, one column each
	FailOn string // what else a gate stops at, which JUnit then counts: FailOnWarn, FailOnRegression
}

// What a gate may stop at beside a failed hop and a walk that decides nothing.
const (
	FailOnWarn       = "warn"
	FailOnRegression = "regression"
)

// UTF8 reports whether a locale, as given by LC_ALL, LC_CTYPE or LANG (the first one set), is UTF-8.
func UTF8(locale string) bool {
	l := strings.ToLower(locale)
	return strings.Contains(l, "utf-8") || strings.Contains(l, "utf8")
}

// Report writes r in the format of o. It fails only when w does, or on an unknown format.
func Report(w io.Writer, r *diag.Report, o Options) error {
	switch o.Format {
	case JSON:
		return writeJSON(w, r)
	case NDJSON:
		return writeNDJSON(w, r)
	case JUnit:
		return writeJUnit(w, r, o.FailOn)
	case Markdown:
		return writeMarkdown(w, r)
	}
	p := newPage(o)
	switch o.Format {
	case Table, "":
		p.table(r, false)
	case Wide:
		p.table(r, true)
	case Short:
		p.short(r)
	default:
		_, err := ParseFormat(string(o.Format))
		return err
	}
	return p.flush(w)
}
