package render

import "strings"

// UTF8 reports whether a locale, as given by LC_ALL, LC_CTYPE or LANG (the first one set), is UTF-8.
func UTF8(locale string) bool {
	l := strings.ToLower(locale)
	return strings.Contains(l, "utf-8") || strings.Contains(l, "utf8")
}
