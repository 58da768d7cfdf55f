package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/gpuaas/gpuaasctl/internal/clean"
)

// Clean removes control characters from foreign text and puts it on one line; see clean.Text.
func Clean(s string) string { return clean.Text(s) }

// Width is the number of terminal columns of clean text.
func Width(s string) int {
	if clean.Harmless(s) {
		return len(s)
	}
	return ansi.StringWidth(s)
}

// Cut shortens clean text to n columns, with an ellipsis if something was left out.
func Cut(s string, n int) string {
	switch {
	case Width(s) <= n:
		return s
	case n <= 1:
		return ansi.Truncate(s, max(n, 0), "")
	}
	return ansi.Truncate(s, n, "…")
}

// Pad returns clean text padded with spaces to n columns.
func Pad(s string, n int) string { return s + spaces(n-Width(s)) }

func spaces(n int) string { return strings.Repeat(" ", max(n, 0)) }

// leastRoom is the narrowest column in which prose is wrapped.
const leastRoom = 8

// Wrap breaks text at spaces into lines of at most n columns, 0 for unlimited; a longer word is broken. It keeps a
// number with its unit, a middle dot with the preceding word, and -o with its value.
func Wrap(s string, n int) []string {
	words := kept(strings.Fields(s))
	n = cmp.Or(n, 1<<30)
	n = max(n, leastRoom)
	var lines []string
	line, used := "", 0
	for _, word := range words {
		w := Width(word)
		if w > n {
			if used > 0 {
				lines, line, used = append(lines, line), "", 0
			}
			pieces := strings.Split(ansi.Hardwrap(word, n, true), "\n") // in one pass: a word may have megabytes
			word = pieces[len(pieces)-1]
			lines, w = append(lines, pieces[:len(pieces)-1]...), Width(word)
		}
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

// kept joins words that belong on one line.
func kept(words []string) []string {
	var out []string
	before := ""
	for _, word := range words {
		if n := len(out); n > 0 && ((word == "·" && before != "·") || (isUnit(word) && endsInDigit(before)) ||
			before == "-o" || before == "(-o") {
			out[n-1] += " " + word
		} else {
			out = append(out, word)
		}
		before = word
	}
	return out
}

// isUnit reports whether a word is a unit of the times and sizes on pages.
func isUnit(word string) bool {
	return slices.Contains([]string{"ms", "s", "min", "h", "bytes"}, strings.TrimRight(word, ",;:.)"))
}

func endsInDigit(word string) bool {
	return word != "" && word[len(word)-1] >= '0' && word[len(word)-1] <= '9'
}

// WrapCommand breaks a shell command at spaces outside quotes with a backslash, so that it can still be pasted. A word
// longer than the line is not broken: a broken command is worse than a long line. With n 0 nothing is broken.
func WrapCommand(s string, n int) []string {
	if n == 0 {
		return []string{s}
	}
	var lines []string
	line, used := "", 0
	for _, word := range withValues(shellWords(s), n) {
		w := Width(word)
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

// withValues joins a flag and the value that follows it if both fit into n columns.
func withValues(words []string, n int) []string {
	var out []string
	for i, word := range words {
		if i > 0 && isFlag(words[i-1]) && !strings.HasPrefix(word, "-") &&
			Width(words[i-1])+1+Width(word)+4 <= n { // indented, and continued

			out[len(out)-1] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

// isFlag reports whether a word of a command line may take the next one as its value.
func isFlag(word string) bool {
	return strings.HasPrefix(word, "-") && word != "--" && !strings.Contains(word, "=")
}

// shellWords splits at single spaces outside quotes and keeps the quotes.
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

// Count returns a number with a noun, such as "1 hop" and "3 hops".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
