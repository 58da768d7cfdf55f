package reading

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
)

// OrUnknown returns a reason, or that none was given.
func OrUnknown(s string) string { return cmp.Or(s, "no reason given") }

// MaxCause bounds what a finding quotes, in runes. The end of an error is its most specific part, so the end is kept.
const MaxCause = 200

// OneLine returns text on one line of bounded length, without characters that control a terminal or change how others
// are displayed.
func OneLine(text string) string {
	obeyed := func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) }
	if len(text) <= MaxCause && !strings.ContainsFunc(text, obeyed) {
		return text
	}
	text = strings.Join(strings.FieldsFunc(text, obeyed), " ")
	if runes := []rune(text); len(runes) > MaxCause {
		return "..." + string(runes[len(runes)-MaxCause+3:])
	}
	return text
}

// Times is a number of times in words: once, twice, 3 times.
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
