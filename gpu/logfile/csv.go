package logfile

import (
	"encoding/csv"
	"slices"
	"strings"
)

// table is the header of a file in CSV.
type table struct {
	separator rune
	columns   []string
}

// tableOf returns the table whose header a line is, nil if it is none: at least two names, one of them of a text.
func tableOf(line string) *table {
	line = strings.TrimPrefix(line, "\ufeff")
	for _, sep := range ",;\t|" {
		columns := split(line, sep)
		if len(columns) < 2 || slices.ContainsFunc(columns, isNoColumn) || !slices.ContainsFunc(columns, func(c string) bool {
			return slices.Contains(textKeys, lower(strings.TrimSpace(c)))
		}) {
			continue
		}
		for i, c := range columns {
			columns[i] = strings.TrimSpace(c)
		}
		return &table{sep, columns}
	}
	return nil
}

// isNoColumn reports whether a column of the first line cannot be a name.
func isNoColumn(s string) bool {
	s = strings.TrimSpace(s)
	return len(s) > 40 || strings.Count(s, " ") > 2 || strings.ContainsAny(s, ":=[]{}()<>\"'")
}

// split splits a row of CSV; nil if it is none.
func split(line string, sep rune) []string {
	c := csv.NewReader(strings.NewReader(line))
	c.Comma, c.FieldsPerRecord, c.LazyQuotes = sep, -1, true
	row, err := c.Read()
	if err != nil {
		return nil
	}
	return row
}

// row looks at a row under a header.
func (r *reader) row(n int, s string, ctx context) bool {
	row := split(s, r.table.separator)
	if len(row) != len(r.table.columns) || strings.Count(s, `"`)%2 == 1 { // a part of one; its writer is not known
		r.unread(n, s)
		return true
	}
	var f fields
	var texts []waiting
	for i, v := range row {
		if key := r.table.columns[i]; driverAt(v) >= 0 {
			texts = append(texts, waiting{n, key, v})
		} else {
			f.add(key, v)
		}
	}
	ctx.top = false
	r.named(texts, &f, ctx)
	return true
}

// values looks at a row without a header: what is before the text may be times, numbers, one machine, the kernel.
func (r *reader) values(n int, s string, ctx context) bool {
	row := split(s, ',')
	for i, v := range row {
		if driverAt(v) < 0 {
			continue
		}
		f := frameOf(strings.Join(row[:i], " "), -1, ctx.named)
		rest := strings.Trim(strings.Join(row[:i], " ")[f.text:], " 0123456789.")
		switch {
		case f.writer == program:
			r.foreign(n, s)
		case f.writer == unclear || rest != "":
			r.unread(n, s)
		default:
			ctx.host, ctx.at, ctx.top, ctx.named = f.host, f.at, false, f.writer == kernel
			r.lines(n, v, ctx)
		}
		return true
	}
	return false
}
