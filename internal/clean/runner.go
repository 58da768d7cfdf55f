package clean

import "unicode"

// line is what a runner has read of the current line.
type line struct {
	text   bool // it has begun with something else than spaces
	colon  bool // spaces and one colon, so far
	hashes int  // number signs just before
}

// unheard is text without the commands of a CI runner: GitHub's obeys a line that begins with ::, behind spaces, and
// the older ##[ anywhere in a line. The second colon gets a space before it, and the bracket becomes \u005b: no line of
// JSON begins with colons, and its strings stay the same.
func (w *Writer) unheard(text []byte) []byte {
	if !w.Runner {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for _, r := range string(text) {
		l := &w.line
		switch {
		case r == '\n':
			*l = line{}
		case !l.text && l.colon && r == ':':
			out = append(out, ' ')
			l.text = true
		case !l.text && !l.colon && r == ':':
			l.colon = true
		case l.colon || !unicode.IsSpace(r):
			l.text = true
		}
		if r == '[' && l.hashes >= 2 {
			out = append(out, `\u005b`...)
		} else {
			out = append(out, string(r)...)
		}
		if r == '#' {
			l.hashes++
		} else {
			l.hashes = 0
		}
	}
	return out
}
