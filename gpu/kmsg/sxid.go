package kmsg

import "strings"

// parseSXID parses what follows "nvidia-nvswitch0: SXid": " (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up".
// One error has up to three lines: this one, "20034, Severity 1 Engine instance 28 ...", and "20034, Data {0x...}".
func parseSXID(s string) (Line, bool) {
	l := blank(SXID)
	rest, ok := l.head(s)
	if !ok {
		return Line{}, false
	}
	l.Severity, rest = severity(rest)
	if l.Severity == "" {
		l.Status = statusWords(rest, "Data {", "}")
	}
	l.Link = linkOf(rest)
	l.Text = cut(strings.TrimRight(rest, " \r"), maxText)
	return l, true
}

// continues reports whether a line of an SXID has only what belongs to another line of it.
func (l *Line) continues() bool {
	return l.Kind == SXID && l.Severity == "" &&
		(strings.HasPrefix(l.Text, "Data {") || strings.HasPrefix(l.Text, "Severity "))
}

// severity parses the driver's word at the beginning of s, however it is written, and returns it as Line has it with
// what follows; "" if s begins with another word.
func severity(s string) (word, rest string) {
	for _, of := range [...]struct{ letters, word string }{
		{"alwaysfatal", AlwaysFatal}, {"nonfatal", Nonfatal}, {"fatal", Fatal},
	} {
		i, n := 0, 0
		for i < len(s) && n < len(of.letters) {
			c := s[i] | 0x20
			if c == of.letters[n] {
				n++
			} else if n == 0 || !strings.ContainsRune(" -_", rune(s[i])) {
				break
			}
			i++
		}
		if n == len(of.letters) && (i == len(s) || strings.ContainsRune(",:; \t\r(", rune(s[i]))) {
			return of.word, strings.TrimLeft(s[i:], ",:; \t")
		}
	}
	return "", s
}
