// Package strictyaml reads files that people write: an unknown field, a value of the wrong type or a second document is
// an error, with its line, its field and the nearest existing name. The allowed fields are those of the Go type, so a
// new field needs no list. It knows no file format: profiles, scenarios, suites and the reference platform's
// configuration are read with it.
package strictyaml

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Longer than 300 lines: one walk of a document beside the type that it is read into.

// Error is one mistake in a file, with its line (0: no single line).
type Error struct {
	Path    string
	Line    int
	Message string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Path + ": " + e.Message
	}
	return e.Path + ":" + strconv.Itoa(e.Line) + ": " + e.Message
}

// Problem is one mistake: its place as a dotted key ("faults[0].params.verdict"), or only as a line, and a message.
type Problem struct {
	Key  string
	Line int // 0: the line of Key, or of the innermost existing parent
	Text string

	whole bool // there is a list or a mapping instead of a value
}

// String is the problem without its line.
func (p Problem) String() string {
	if p.Key == "" {
		return p.Text
	}
	return p.Key + ": " + p.Text
}

// Document is a parsed file.
type Document struct {
	Path  string
	Root  *yaml.Node     // its mapping; nil if the file is empty
	Lines map[string]int // lines of its values, by dotted key; list elements have an index: "chaos.windows[1]"
}

// Parse parses a file's one document. An empty file is a document without a Root.
func Parse(path string, data []byte) (Document, error) {
	d := Document{Path: path, Lines: map[string]int{}}
	if len(data) > mostBytes {
		return d, &Error{Path: path, Message: fmt.Sprintf("is larger than %d bytes", mostBytes)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	if err := dec.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return d, d.Error(problems(err, nil))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return d, &Error{Path: path, Message: "holds more than one YAML document"}
	}
	// Refuse a circular or too large document before anything follows aliases or compares fields.
	if found := measure(&root); len(found) > 0 {
		return d, d.Error(found)
	}
	// For example, a merge of a value that is not a mapping is not a type error. Type errors are reported later.
	if err := root.Decode(new(any)); err != nil && !errors.As(err, new(*yaml.TypeError)) {
		return d, d.Error(problems(err, nil))
	}
	if len(root.Content) > 0 && (root.Content[0].Kind != yaml.ScalarNode || root.Content[0].Tag != "!!null") {
		d.Root = root.Content[0]
		index(d.Root, "", d.Lines)
	}
	return d, nil
}

// Decode decodes the document into the struct that into points to. Valid values are set even if there are problems.
func (d Document) Decode(into any) []Problem {
	if d.Root == nil {
		return nil
	}
	return append(Unknown(d.Root, reflect.TypeOf(into), ""), decode(d.Root, into, d.Lines)...)
}

// Decode is Document.Decode for a part of a document whose unknown fields were already reported. key is its place.
func Decode(n *yaml.Node, into any, key string) []Problem {
	lines := map[string]int{}
	index(n, key, lines)
	return decode(n, into, lines)
}

func decode(n *yaml.Node, into any, lines map[string]int) []Problem {
	err := n.Decode(into)
	if err == nil {
		return nil
	}
	found := problems(err, reflect.TypeOf(into))
	byLine := map[int][]string{}
	for key, line := range lines {
		byLine[line] = append(byLine[line], key)
	}
	type place struct {
		line  int
		whole bool
	}
	keys := map[place]string{} // many problems may be on one line
	for i, p := range found {
		at := place{p.Line, p.whole}
		if _, known := keys[at]; !known {
			keys[at] = keyAt(p, byLine[p.Line])
		}
		found[i].Key = keys[at]
	}
	return found
}

// keyAt returns the key for a problem that the decoder reports by line, given the keys on that line: the innermost, but
// not an element of a list that should not be one; "" if the line has several.
func keyAt(p Problem, keys []string) (inner string) {
	var on, fields []string
	for _, key := range keys {
		if strings.HasPrefix(key, "[") { // a list instead of the whole document
			continue
		}
		on = append(on, key)
		if !strings.HasSuffix(key, "]") {
			fields = append(fields, key)
		}
	}
	if p.whole && len(fields) > 0 {
		on = fields
	}
	for _, key := range on {
		if len(key) > len(inner) {
			inner = key
		}
	}
	for _, key := range on {
		if !strings.HasPrefix(inner, key) {
			return ""
		}
	}
	return inner
}

// Error returns an error for each of the first problems, in the order of their lines; nil if there are none.
func (d Document) Error(found []Problem) error {
	for i := range found {
		if found[i].Line == 0 {
			found[i].Line = d.LineOf(found[i].Key)
		}
	}
	slices.SortStableFunc(found, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, strings.Compare(a.Text, b.Text))
	})
	errs := make([]error, 0, min(len(found), mostErrors+1))
	for i, p := range found {
		if i == mostErrors {
			errs = append(errs, &Error{Path: d.Path, Message: fmt.Sprintf("and %d more mistakes", len(found)-i)})
			break
		}
		errs = append(errs, &Error{Path: d.Path, Line: p.Line, Message: p.String()})
	}
	return errors.Join(errs...)
}

// LineOf returns the line of a key, or of its nearest parent in the file.
func (d Document) LineOf(key string) int {
	for key != "" {
		if line, ok := d.Lines[key]; ok {
			return line
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return 1
}

// index records the line of every value by its key.
func index(n *yaml.Node, key string, lines map[string]int) {
	switch n.Kind {
	case yaml.AliasNode:
		index(n.Alias, key, lines)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := Under(key, nameOf(n.Content[i]))
			lines[k] = n.Content[i].Line
			index(n.Content[i+1], k, lines)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			k := fmt.Sprintf("%s[%d]", key, i)
			lines[k] = c.Line
			index(c, k, lines)
		}
	}
}

// Under returns the key of a field.
func Under(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// Unknown lists the fields of n that the type t does not have. It skips a struct without fields for a file, which
// decodes itself.
func Unknown(n *yaml.Node, t reflect.Type, key string) []Problem {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var found []Problem
	switch {
	case n.Kind == yaml.AliasNode:
		return Unknown(n.Alias, t, key)
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, c := range n.Content {
			found = append(found, Unknown(c, t.Elem(), fmt.Sprintf("%s[%d]", key, i))...)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if name, value := n.Content[i], n.Content[i+1]; name.Tag == mergeTag {
				found = append(found, merged(value, t, key)...)
			} else {
				found = append(found, Unknown(value, t.Elem(), Under(key, nameOf(name)))...)
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		fields := Fields(t)
		if len(fields) == 0 && t.NumField() > 0 {
			return nil
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := nameOf(n.Content[i]), n.Content[i+1]
			switch f, ok := fields[name]; {
			case n.Content[i].Tag == mergeTag:
				found = append(found, merged(value, t, key)...)
			case ok:
				found = append(found, Unknown(value, f, Under(key, name))...)
			default:
				text := "unknown field" + Nearest(name, names(fields))
				found = append(found, Problem{Key: Under(key, name), Line: n.Content[i].Line, Text: text})
			}
		}
	}
	return found
}

// mergeTag is the tag of the field "<<", whose mapping, or list of mappings, is merged into the surrounding one.
const mergeTag = "!!merge"

// merged is Unknown for what is merged into a t.
func merged(n *yaml.Node, t reflect.Type, key string) (found []Problem) {
	switch n.Kind {
	case yaml.AliasNode:
		return merged(n.Alias, t, key)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			found = append(found, Unknown(c, t, key)...)
		}
		return found
	}
	return Unknown(n, t, key)
}

// nameOf returns the name of a field, which may be an alias.
func nameOf(n *yaml.Node) string {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Value
}

// Fields returns the fields of a struct by their names in a file.
func Fields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		tag, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case tag == "-" || (!f.IsExported() && !f.Anonymous):
		case strings.Contains(rest, "inline") || (f.Anonymous && tag == ""):
			maps.Copy(fields, Fields(f.Type))
		case tag != "":
			fields[tag] = f.Type
		default:
			fields[strings.ToLower(f.Name)] = f.Type
		}
	}
	return fields
}

func names(fields map[string]reflect.Type) []string {
	all := make([]string, 0, len(fields))
	for k := range fields {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
