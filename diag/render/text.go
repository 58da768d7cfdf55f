package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Clean makes text from elsewhere harmless to a terminal and keeps it on one line: control characters, also those of
// the upper half and the ones that turn the writing direction, are shown as \xNN or \uNNNN.
func Clean(s string) string {
	if harmless(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case r == utf8.RuneError:
			b.WriteRune(r)
		case !hidden(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func harmless(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// hidden are runes that a terminal obeys or that change how others read: controls, format marks, line separators; and
// the two that no XML document may hold.
func hidden(r rune) bool {
	return r == 0xfffe || r == 0xffff || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Co, r)
}

// width is the number of terminal columns of clean text.
func width(s string) int {
	if harmless(s) {
		return len(s)
	}
	return ansi.StringWidth(s)
}

// cut shortens s to n columns, with an ellipsis where something was left out.
func cut(s string, n int) string {
	switch {
	case width(s) <= n:
		return s
	case n <= 1:
		return ansi.Truncate(s, max(n, 0), "")
	}
	return ansi.Truncate(s, n, "…")
}

// spaces pads without making a new string for ordinary widths.
func spaces(n int) string {
	const blank = "                                                                                "
	if n <= 0 {
		return ""
	}
	if n <= len(blank) {
		return blank[:n]
	}
	return strings.Repeat(" ", n)
}

// wrap breaks text at spaces into lines of at most n columns; a longer word is broken itself.
func wrap(s string, n int) []string {
	n = max(n, 8)
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(s) {
		for width(word) > n {
			if used > 0 {
				lines, line, used = append(lines, line), "", 0
			}
			head := ansi.Truncate(word, n, "")
			lines, word = append(lines, head), word[len(head):]
		}
		w := width(word)
		switch {
		case used == 0:
			line, used = word, w
		case used+1+w <= n:
			line, used = line+" "+word, used+1+w
		default:
			lines, line, used = append(lines, line), word, w
		}
	}
	if used > 0 {
		lines = append(lines, line)
	}
	return lines
}

// Wrap breaks clean text into lines of at most n columns, between words where it can.
func Wrap(s string, n int) []string { return wrap(s, n) }

// wrapCommand breaks a shell command at spaces outside of quotes with a backslash, so that it still can be pasted. A
// word longer than the line is left whole: a broken command is worse than a long line.
func wrapCommand(s string, n int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range shellWords(s) {
		w := width(word)
		switch {
		case used == 0:
			line, used = word, w
		case used+1+w+2 <= n: // two columns for " \"
			line, used = line+" "+word, used+1+w
		default:
			lines = append(lines, line+` \`)
			line, used = "  "+word, w+2
		}
	}
	return append(lines, line)
}

// shellWords splits at single spaces outside of quotes and keeps the quotes.
func shellWords(s string) []string {
	var words []string
	var quote rune
	start, escaped := 0, false
	for i, r := range s {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case r == ' ':
			if i > start {
				words = append(words, s[start:i])
			}
			start = i + 1
		}
	}
	if start < len(s) {
		words = append(words, s[start:])
	}
	return words
}
