package clean

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"unicode/utf8"
)

// Writer passes lines of text on, escaping everything that a terminal interprets, except line ends, tabs and, if Colour
// is set, our own colours. A hidden rune becomes \uNNNN, so that JSON keeps its value. Bytes that are not UTF-8 become
// U+FFFD: some terminals interpret single ones. What a CI system would execute becomes text, see runner.go.
//
// A rune or a colour that is split between two writes is held until the next one; Flush writes what is left.
type Writer struct {
	To     io.Writer
	Colour bool

	mu   sync.Mutex // guards the fields below
	line line
	kept []byte
}

// longest is the maximum length in bytes of our colours.
const longest = 12

// Write implements io.Writer. It returns the number of bytes of p, if all of them were accepted.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p) == 0 { // what is held waits for a byte that decides it
		return 0, nil
	}
	text := p
	if len(w.kept) > 0 {
		text = append(w.kept, p...)
		w.kept = nil
	}
	if printable(text) {
		_, err := w.To.Write(w.line.inert(text))
		return len(p), err
	}
	out, rest := w.cleaned(text, false)
	w.kept = append(w.kept, rest...)
	if _, err := w.To.Write(w.line.inert(out)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what was held for the next write.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.kept) == 0 {
		return nil
	}
	out, _ := w.cleaned(w.kept, true)
	w.kept = nil
	_, err := w.To.Write(w.line.inert(out))
	return err
}

// Unwrap is the writer beneath.
func (w *Writer) Unwrap() io.Writer { return w.To }

// printable reports whether text can be written unchanged.
func printable(text []byte) bool {
	for _, c := range text {
		if c != '\n' && c != '\t' && (c < 0x20 || c >= 0x7f) {
			return false
		}
	}
	return true
}

// cleaned returns in with escapes; rest is the incomplete end that only the next bytes decide, empty at the last call.
func (w *Writer) cleaned(in []byte, last bool) (out, rest []byte) {
	out = make([]byte, 0, len(in)+64)
	for len(in) > 0 {
		switch c := in[0]; {
		case c == '\x1b' && w.Colour:
			n, known := colour(in)
			if !known && !last && n == len(in) && n < longest {
				return out, in
			}
			if known {
				out, in = append(out, in[:n]...), in[n:]
				continue
			}
		case c == '\r' && len(in) == 1 && !last:
			return out, in
		case c == '\r' && len(in) > 1 && in[1] == '\n':
			in = in[1:]
			continue
		case c == '\n' || c == '\t':
			out, in = append(out, c), in[1:]
			continue
		}
		if !last && !utf8.FullRune(in) {
			return out, in
		}
		r, n := utf8.DecodeRune(in)
		if Hidden(r) {
			out = escaped(out, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
		in = in[n:]
	}
	return out, nil
}

// colour reports whether in begins with one of our colours: bold, faint, a foreground, or their end. n is its length,
// or how much of in could be the beginning of one.
func colour(in []byte) (n int, known bool) {
	if len(in) < 2 {
		return len(in), false
	}
	if in[1] != '[' {
		return 1, false
	}
	for n = 2; n < len(in) && n < longest; n++ {
		if c := in[n]; c == 'm' {
			for _, number := range bytes.Split(in[2:n], []byte(";")) {
				if !ours(string(number)) {
					return n, false
				}
			}
			return n + 1, true
		} else if c != ';' && (c < '0' || c > '9') {
			return n, false
		}
	}
	return n, false
}

// ours reports whether the renderers use the attribute.
func ours(number string) bool {
	return slices.Contains([]string{"", "0", "1", "2", "22", "39"}, number) ||
		(len(number) == 2 && (number[0] == '3' || number[0] == '9') && number[1] >= '0' && number[1] <= '7')
}
