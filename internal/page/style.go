package page

import (
	"cmp"
	"unicode/utf8"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Style is a meaning that colour emphasizes; text always expresses it as well.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Good
	Warning
	Bad
	Unsure
	Faint
	Strong
)

// sgr is the terminal's code for each style: the eight basic colours, which every theme maps to something readable.
var sgr = [...]string{Plain: "", Good: "32", Warning: "33", Bad: "1;31", Unsure: "35", Faint: "2", Strong: "1"}

// StatusStyle returns the style of a status.
func StatusStyle(s diag.Status) Style {
	return cmp.Or(map[diag.Status]Style{
		diag.StatusPass:         Good,
		diag.StatusWarn:         Warning,
		diag.StatusFail:         Bad,
		diag.StatusInconclusive: Unsure,
	}[s], Faint)
}

// Status returns a status as symbol and words.
func Status(s diag.Status) Cell { return Marked(s, s.Words()) }

// Marked returns words with the symbol and the style of a status.
func Marked(s diag.Status, words string) Cell { return Cell{s.Symbol() + " " + words, StatusStyle(s)} }

// toASCII replaces every symbol that pages use by ASCII of the same width, and other letters by "?".
func toASCII(in []byte) []byte {
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		r, n := utf8.DecodeRune(in)
		switch c, known := inASCII[r]; {
		case r < utf8.RuneSelf:
			out = append(out, in[0])
		case known:
			out = append(out, c)
		default:
			for range Width(string(r)) {
				out = append(out, '?')
			}
		}
		in = in[n:]
	}
	return out
}

var inASCII = map[rune]byte{
	'✔': '+', '✘': 'x', '–': '-', '—': '-', '─': '-', '·': '.', '…': '~', '›': '>', '◀': '<', '└': '`', '↳': '`', '≤': '<',
	'█': '#', '│': '|', '▒': '=', '≠': '!',
}
