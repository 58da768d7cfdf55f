package main

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/diag/render"
)

const (
	// leastLast is the room that a last column needs to be wrapped where it stands; with less it goes below.
	leastLast = 28
	// below is how far what does not fit beside is set in.
	below = "    "
)

// columnsIn is columns for a terminal that is limit wide, 0 for a pipe, which gets everything beside each other. Nothing
// is left out: the last column is wrapped, and where there is no room for that, the columns that do not fit follow below
// their row, without those that say nothing.
func columnsIn(rows [][]string, limit int) []byte {
	full := columns(rows)
	if limit == 0 || widest(full) <= limit || len(rows) == 0 {
		return full
	}
	fit, used := fitting(rows, limit)
	head := make([][]string, len(rows))
	for i, row := range rows {
		head[i] = append(slices.Clone(row[:min(fit, len(row))]), "") // each as wide as its column
	}
	lines := strings.Split(strings.TrimSuffix(string(columns(head)), "\n"), "\n")
	var b bytes.Buffer
	for i, row := range rows {
		rest := row[min(fit, len(row)):]
		if fit == len(row)-1 && limit-used >= leastLast {
			hang(&b, lines[i], used, rest[0], limit)
			continue
		}
		b.WriteString(lines[i] + "\n")
		var said []string
		for _, cell := range rest {
			if cell != "" && cell != "-" {
				said = append(said, cell)
			}
		}
		for _, l := range render.Wrap(strings.Join(said, "; "), limit-len(below)) {
			b.WriteString(below + l + "\n")
		}
	}
	return b.Bytes()
}

// hang writes text behind head from column at on, wrapped.
func hang(b *bytes.Buffer, head string, at int, text string, limit int) {
	lines := render.Wrap(text, limit-at)
	if len(lines) == 0 {
		b.WriteString(strings.TrimRight(head, " ") + "\n")
		return
	}
	for _, l := range lines {
		b.WriteString(head + strings.Repeat(" ", max(at-utf8.RuneCountInString(head), 0)) + l + "\n")
		head = ""
	}
}

// fitting is how many leading columns fit beside each other, at least one, and how wide they are with their gaps. The last
// column is never among them.
func fitting(rows [][]string, limit int) (n, used int) {
	for n < len(rows[0])-1 {
		wide := 0
		for _, row := range rows {
			if n < len(row) {
				wide = max(wide, utf8.RuneCountInString(row[n]))
			}
		}
		if n > 0 && used+wide > limit {
			break
		}
		used += wide + 2
		n++
	}
	return n, used
}

// widest is the width of the widest line.
func widest(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		n = max(n, utf8.RuneCount(bytes.TrimRight(line, "\n")))
	}
	return n
}
