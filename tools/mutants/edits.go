package main

import (
	"cmp"
	"slices"
	"strings"
)

// edits are changes of a text, collected from the outer nodes of a syntax tree to the inner ones.
type edits struct{ all []edit }

type edit struct {
	at, length int    // what is replaced
	text       string // by what
	closes     bool   // it ends something
	order      int
}

func (e *edits) add(one edit) {
	one.order = len(e.all)
	e.all = append(e.all, one)
}

// open inserts text before what begins at the offset; of several, the first is the outermost.
func (e *edits) open(at int, text string) { e.add(edit{at: at, text: text}) }

// close inserts text after what ends at the offset; of several, the first is the outermost.
func (e *edits) close(at int, text string) { e.add(edit{at: at, text: text, closes: true}) }

func (e *edits) replace(at, length int, by string) {
	e.add(edit{at: at, length: length, text: by})
}

// apply returns the text with all changes.
func (e *edits) apply(text []byte) []byte {
	sorted := slices.Clone(e.all)
	slices.SortFunc(sorted, func(a, b edit) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.closes != b.closes: // what ends here ends before something begins
			if a.closes {
				return -1
			}
			return 1
		case a.closes:
			return cmp.Compare(b.order, a.order)
		}
		return cmp.Compare(a.order, b.order)
	})
	var out strings.Builder
	done := 0
	for _, s := range sorted {
		out.Write(text[done:s.at])
		out.WriteString(s.text)
		done = s.at + s.length
	}
	out.Write(text[done:])
	return []byte(out.String())
}
