package render

import "strings"

// UTF8 reports whether a locale, taken from LC_ALL, LC_CTYPE or LANG (the first that is set), is UTF-8.
func UTF8(locale string) bool {
	l := strings.ToLower(locale)
	return strings.Contains(l, "utf-8") || strings.Contains(l, "utf8")
}
