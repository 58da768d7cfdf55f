// Package clean makes foreign text harmless to whatever displays it: a terminal, a file that is viewed later, a CI log.
// Control characters (C0 and C1), format characters and characters that change the writing direction are shown as
// escapes.
//
// Text is for a cell of a line, JSON for a document, and Writer for everything that a command writes: it cleans what a
// renderer forgot to clean.
package clean

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s on one line, without characters that a terminal interprets: a hidden rune is shown as \xNN or \uNNNN.
func Text(s string) string {
	if Harmless(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case !Hidden(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Harmless reports whether s is only printable ASCII.
func Harmless(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// Hidden reports whether a terminal interprets r, or r changes how others are displayed: controls, format characters,
// line separators; and the two runes that are invalid in XML.
func Hidden(r rune) bool {
	return r == 0xfffe || r == 0xffff || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) ||
		unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Co, r)
}

// JSON escapes hidden runes above ASCII as \uNNNN, and commands to CI systems. Outside of strings JSON has none, so the
// document keeps its value.
func JSON(in []byte) []byte {
	in = Inert(in)
	clean := true
	for _, c := range in {
		if c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return in
	}
	out := make([]byte, 0, len(in)+64)
	for len(in) > 0 {
		r, n := utf8.DecodeRune(in)
		if r < 0x7f || !Hidden(r) {
			out = append(out, in[:n]...)
		} else {
			out = escaped(out, r)
		}
		in = in[n:]
	}
	return out
}

// escaped appends \uNNNN, twice for a rune that needs a surrogate pair: in a JSON string it decodes to the rune.
func escaped(out []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		return fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
	}
	return fmt.Appendf(out, `\u%04x`, r)
}
