package clean

import "unicode"

// line is what a CI runner has parsed of the current line.
type line struct {
	text   bool // it began with something other than spaces
	colon  bool // spaces and one colon, so far
	hashes int  // number signs just before
}

// unheard disables commands to a CI runner in text: GitHub's interprets a line that begins with ::, after spaces, and
// the older ##[ anywhere in a line. A space is inserted before the second colon, and the bracket becomes \u005b: no
// line of JSON begins with colons, and its strings keep their values.
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
