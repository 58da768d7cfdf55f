package program

import (
	"cmp"
	"slices"
	"strings"
)

// Edits are changes of a text, none of which overlap, collected from the outer nodes of a syntax tree to the inner
// ones.
type Edits struct{ all []edit }

type edit struct {
	at, length int    // what is replaced
	text       string // by what
	closes     bool   // it ends something
	order      int
}

func (e *Edits) add(one edit) {
	one.order = len(e.all)
	e.all = append(e.all, one)
}

// Open inserts text before what begins at the offset; of several, the first is the outermost.
func (e *Edits) Open(at int, text string) { e.add(edit{at: at, text: text}) }

// Close inserts text after what ends at the offset; of several, the first is the outermost.
func (e *Edits) Close(at int, text string) { e.add(edit{at: at, text: text, closes: true}) }

// Replace puts text in the place of the length bytes at the offset; of several at one offset, the first comes first.
func (e *Edits) Replace(at, length int, by string) {
	e.add(edit{at: at, length: length, text: by})
}

// Apply returns the text with all changes.
func (e *Edits) Apply(text []byte) []byte {
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
