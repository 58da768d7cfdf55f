package logfile

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// char takes a byte of a string.
func (j *jsonParser) char(c byte) {
	switch {
	case j.escape == 1:
		j.escape = 0
		switch c {
		case 'n', 'r':
			j.put('\n')
		case 't':
			j.put('\t')
		case 'b', 'f':
		case 'u':
			j.escape, j.unit = 2, 0
		default:
			j.put(c)
		}
	case j.escape > 1:
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 {
			j.failed = true
			return
		}
		j.unit = j.unit<<4 | rune(d)
		if j.escape++; j.escape == 6 {
			j.escape = 0
			j.rune(j.unit)
		}
	case c == '\\':
		j.escape = 1
	case c == '"':
		j.inStr = false
		j.endString()
	case c == '\n':
		j.failed = true
	default:
		j.put(c)
	}
}

func (j *jsonParser) rune(r rune) {
	if utf16.IsSurrogate(r) {
		if full := utf16.DecodeRune(j.high, r); full != utf8.RuneError {
			r = full
		} else {
			j.high = r
			return
		}
	}
	j.high = 0
	if r != 0 {
		for _, c := range utf8.AppendRune(nil, r) {
			j.put(c)
		}
	}
}

// put adds a byte to the string. Of a long one only the lines with the driver's words are kept.
func (j *jsonParser) put(c byte) {
	if len(j.str) >= maxString {
		cut := bytes.LastIndexByte(j.str, '\n') + 1
		if cut == 0 {
			cut = len(j.str)
		}
		if hinted(j.str[:cut]) {
			j.hold(string(j.str[:cut]))
		}
		j.str = append(j.str[:0], j.str[cut:]...)
	}
	j.str = append(j.str, c)
}
