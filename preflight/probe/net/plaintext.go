package net

import "strings"

// maxText bounds how much of a terminal's output is kept to search for a nonce.
const maxText = 16 << 10

// plainText is the last part of a terminal's output, without control sequences. Its bytes may arrive in any portions.
type plainText struct {
	text  string
	state int
}

const (
	inText   = iota
	inEscape // after ESC
	inCSI    // after ESC [
	inString // after ESC ] and similar, to BEL or ESC \
	inStringEscape
	inCharset // one more byte belongs to the sequence
)

func (p *plainText) write(b []byte) {
	var out strings.Builder
	for _, c := range b {
		switch p.state {
		case inText:
			switch {
			case c == 0x1b:
				p.state = inEscape
			case (c >= ' ' && c != 0x7f) || c == '\n':
				out.WriteByte(c)
			}
		case inEscape:
			switch c {
			case '[':
				p.state = inCSI
			case ']', 'P', '_', '^', 'X':
				p.state = inString
			case '(', ')', '*', '+', '#', '%', ' ':
				p.state = inCharset
			default:
				p.state = inText
			}
		case inCSI:
			if c >= '@' && c <= '~' {
				p.state = inText
			}
		case inString:
			switch c {
			case 0x07:
				p.state = inText
			case 0x1b:
				p.state = inStringEscape
			}
		case inStringEscape, inCharset:
			p.state = inText
		}
	}
	p.text += out.String()
	if over := len(p.text) - maxText; over > 0 {
		p.text = p.text[over:]
	}
}
