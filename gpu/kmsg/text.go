package kmsg

import (
	"strings"
	"unicode/utf8"
)

// address normalizes a PCI address as drivers print it, with or without "PCI:", domain and function, to the form
// 0000:3b:00.0. It returns "" for other text.
func address(s string) string {
	s = strings.TrimPrefix(s, "PCI:")
	s, function, dotted := strings.Cut(s, ".")
	if !dotted {
		function = "0"
	}
	parts := strings.Split(s, ":")
	switch {
	case len(parts) == 2 && len(parts[0]) == 4: // drivers before 300: only bus and device, the bus with four digits
		parts = []string{"0", strings.TrimPrefix(parts[0], "00"), parts[1]}
	case len(parts) == 2:
		parts = []string{"0", parts[0], parts[1]}
	}
	if len(parts) != 3 {
		return ""
	}
	domain, bus, device := hexes(parts[0], 8), hexes(parts[1], 2), hexes(parts[2], 2)
	if domain == "" || bus == "" || device == "" || hexes(function, 1) == "" {
		return ""
	}
	domain = pad(strings.TrimLeft(domain, "0"), 4)
	return domain + ":" + pad(bus, 2) + ":" + pad(device, 2) + "." + strings.ToLower(function)
}

// hexes returns s in lower case if it has 1 to most hexadecimal digits and nothing else, else "".
func hexes(s string, most int) string {
	if s == "" || len(s) > most {
		return ""
	}
	for i := range len(s) {
		if hex(s[i]) < 0 {
			return ""
		}
	}
	return strings.ToLower(s)
}

// hex returns the value of a hexadecimal digit, -1 for another byte.
func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func pad(s string, to int) string {
	if len(s) < to {
		return strings.Repeat("0", to-len(s)) + s
	}
	return s
}

// decimal parses up to ten digits, and returns what follows them. Without a digit the number is Absent.
func decimal(s string) (n int, rest string) {
	i := 0
	for i < len(s) && i < 10 && s[i] >= '0' && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		i++
	}
	if i == 0 || (i < len(s) && s[i] >= '0' && s[i] <= '9') {
		return Absent, s
	}
	return n, s[i:]
}

// whole returns s as a number if it is one and nothing else, else Absent.
func whole(s string) int {
	n, rest := decimal(s)
	if rest != "" {
		return Absent
	}
	return n
}

// cut truncates s to at most most bytes, between two characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return strings.Clone(s[:most])
}
