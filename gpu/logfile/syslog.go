package logfile

import "strings"

// priority parses "<3>", a syslog's facility and level, and the rest of RFC 5424's header, if one follows. A length may
// precede it.
func (p *parser) priority(s string) int {
	size := 0
	if rest := strings.TrimLeft(s, "0123456789"); len(rest) < len(s) && strings.HasPrefix(rest, " <") {
		size = len(s) - len(rest) + 1
	}
	n := 0
	if digits, _, ok := strings.Cut(s[size:], ">"); ok && len(digits) > 1 && len(digits) < 5 && digits[0] == '<' &&
		strings.Trim(digits[1:], "0123456789") == "" {
		p.facility = p.facility || num(digits[1:]) > 7
		p.log = true
		n = size + len(digits) + 1
	}
	if version, ok := strings.CutPrefix(s[n:], "1 "); ok && (n > 0 || p.tokens == 0) {
		if m := p.rfc5424(version); m > 0 {
			return n + 2 + m
		}
	}
	return n
}

// rfc5424 parses "TIME HOST APP PROCID MSGID STRUCTURED-DATA ".
func (p *parser) rfc5424(s string) int {
	part := strings.SplitN(s, " ", 6)
	if len(part) < 6 {
		return 0
	}
	n, at := timeAt(part[0])
	if part[0] != "-" && n == 0 {
		return 0
	}
	used := len(s) - len(part[5])
	data := structured(part[5])
	if data == 0 {
		return 0
	}
	p.keepTime(at)
	p.log, p.timed = true, true
	if part[1] != "-" {
		p.host = part[1]
	}
	if part[2] != "-" {
		p.wrote(part[2])
	}
	return used + data
}

// structured returns the length of RFC 5424's structured data.
func structured(s string) int {
	if strings.HasPrefix(s, "-") {
		return 1
	}
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case i == 0 && s[i] != '[':
			return 0
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == ']' && (i+1 == len(s) || s[i+1] != '['):
			return i + 1
		}
	}
	return 0
}
