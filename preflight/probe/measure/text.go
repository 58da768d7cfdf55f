package measure

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Clip returns at most the first n bytes.
func Clip(b []byte, n int) []byte { return b[:min(len(b), n)] }

// IsAlphanumeric reports whether c is an ASCII letter or digit.
func IsAlphanumeric(c rune) bool {
	return ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z')
}

// JSONText returns a JSON value as text; false for no value and for null.
func JSONText(value []byte) (string, bool) {
	if len(value) == 0 || value[0] == 'n' {
		return "", false
	}
	var s string
	if value[0] == '"' && bounded.Unmarshal(value, &s, bounded.Answer()) == nil {
		return s, true
	}
	return string(value), true
}

// ContainsAny reports whether s has one of parts.
func ContainsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}
