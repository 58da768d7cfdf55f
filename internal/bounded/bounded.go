// Package bounded decodes foreign data: reports, bundles, records, logs, answers and lines of a node. A few bytes of
// JSON may decode into a hundred times their size ("{}," becomes a struct), so a limit on bytes does not limit memory.
// This package counts list elements, values and depth before it decodes, and refuses a document over a limit with the
// limit's name.
//
// It knows no document types: limits.go has the limits for each. Every reader of foreign bytes uses it, and a test in
// tools/house finds readers that do not.
package bounded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits bound one document. All fields must be set.
type Limits struct {
	Bytes    int // size of the encoded document
	Elements int // in all lists together; each may decode into a struct
	Values   int // members of objects and elements of lists, all together
	Depth    int // nesting of lists and objects
}

// ErrLimit is wrapped by every refusal of this package.
var ErrLimit = errors.New("over a limit of this tool")

// LimitError is the limit that a document exceeds. Line is where, from 1, or 0 if no single line exceeds it.
type LimitError struct {
	What string // "bytes", "list elements", "values" or "levels of nesting"
	Most int
	Line int
}

func (e *LimitError) Error() string {
	text := "more than " + strconv.Itoa(e.Most) + " " + e.What + ", " + ErrLimit.Error()
	if e.Line > 0 {
		return "line " + strconv.Itoa(e.Line) + ": " + text
	}
	return text
}

func (e *LimitError) Unwrap() error { return ErrLimit }

// Read reads all of r; more than most bytes are a *LimitError.
func Read(r io.Reader, most int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > most {
		return nil, &LimitError{What: "bytes", Most: most}
	}
	return data, nil
}

// Count is the size of a document.
type Count struct{ Elements, Values, Depth int }

// Check refuses a JSON document that is over a limit. It does not check that the document is valid JSON.
func Check(data []byte, l Limits) error {
	_, err := Measure(data, l)
	return err
}

// Measure counts the contents of a document, and stops with a *LimitError at a limit. For text that is not JSON the
// counts are meaningless, but a decoder refuses it before it allocates for them.
func Measure(data []byte, l Limits) (Count, error) {
	var n Count
	if len(data) > l.Bytes {
		return n, &LimitError{What: "bytes", Most: l.Bytes}
	}
	var lists [maxDepth/64 + 1]uint64 // a bit for each open level: 1 is a list
	fresh := false                    // the last token opened a level
	depth := 0
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch c {
		case ' ', '\n', '\t', '\r':
			continue
		case ',', ']', '}':
		default:
			if fresh {
				n.add(lists[depth/64]>>(depth%64)&1 == 1)
			}
		}
		fresh = false
		switch c {
		case '"':
			i = stringEnd(data, i)
		case '[', '{':
			if depth++; depth > min(l.Depth, maxDepth) {
				return n, &LimitError{"levels of nesting", l.Depth, lineOf(data, i)}
			}
			n.Depth, fresh = max(n.Depth, depth), true
			lists[depth/64] &^= 1 << (depth % 64)
			if c == '[' {
				lists[depth/64] |= 1 << (depth % 64)
			}
		case ']', '}':
			depth = max(depth-1, 0)
		case ',':
			n.add(lists[depth/64]>>(depth%64)&1 == 1)
		default:
			continue
		}
		switch {
		case n.Elements > l.Elements:
			return n, &LimitError{"list elements", l.Elements, lineOf(data, i)}
		case n.Values > l.Values:
			return n, &LimitError{"values", l.Values, lineOf(data, i)}
		}
	}
	return n, nil
}

// maxDepth bounds the nesting that Measure can follow, whatever the limits.
const maxDepth = 255

func (n *Count) add(element bool) {
	n.Values++
	if element {
		n.Elements++
	}
}

// stringEnd returns the index of the quote that closes the string opened at i.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '"':
			return i
		case '\\':
			i++ // skip the escaped byte
		}
	}
	return len(data)
}

func lineOf(data []byte, i int) int { return 1 + bytes.Count(data[:min(i, len(data))], []byte("\n")) }

// Unmarshal is json.Unmarshal for a document within l.
func Unmarshal(data []byte, v any, l Limits) error {
	if err := Check(data, l); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// ErrMore means that a text continues after its document.
var ErrMore = errors.New("something follows the document")

// Strict decodes exactly one document within l and without unknown fields.
func Strict(data []byte, v any, l Limits) error {
	if err := Check(data, l); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return only(d, v)
}

// only decodes the document in d, and requires that nothing follows.
func only(d *json.Decoder, v any) error {
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return ErrMore
	}
	return nil
}

// Lines counts the documents of a file with one per line, such as a log: their sum must be within the limits of one
// document.
type Lines struct {
	limits Limits
	n      Count
}

// NewLines begins a file whose lines must together be within l.
func NewLines(l Limits) *Lines { return &Lines{limits: l} }

// Unmarshal decodes the next line.
func (s *Lines) Unmarshal(line []byte, v any) error {
	left := s.limits
	left.Elements, left.Values = left.Elements-s.n.Elements, left.Values-s.n.Values
	n, err := Measure(line, left)
	var over *LimitError
	switch {
	case errors.As(err, &over) && over.What == "list elements":
		over.Most, over.Line = s.limits.Elements, 0
	case errors.As(err, &over) && over.What == "values":
		over.Most, over.Line = s.limits.Values, 0
	}
	if err != nil {
		return fmt.Errorf("the file up to here: %w", err)
	}
	s.n.Elements, s.n.Values = s.n.Elements+n.Elements+1, s.n.Values+n.Values
	return json.Unmarshal(line, v)
}
