package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// mistake is one mistake in a file of the catalogue.
type mistake struct {
	file string
	line int
	text string
}

func (m mistake) Error() string { return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.text) }

// reader decodes one file strictly, and collects its mistakes.
type reader struct {
	file  string
	words words
	found []error
}

func (r *reader) bad(n *yaml.Node, format string, args ...any) {
	r.found = append(r.found, mistake{r.file, n.Line, fmt.Sprintf(format, args...)})
}

// sequence parses the file below root into its rows; a missing file has none.
func (r *reader) sequence(root string) []*yaml.Node {
	data, err := os.ReadFile(filepath.Join(root, r.file))
	if err != nil {
		r.found = append(r.found, err)
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		r.found = append(r.found, fmt.Errorf("%s: %w", r.file, err))
		return nil
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.SequenceNode {
		r.bad(&yaml.Node{Line: 1}, "want a list of rows")
		return nil
	}
	return doc.Content[0].Content
}

// rows decodes nodes into the slice of structs that into points to. It refuses duplicate ids and constants.
func (r *reader) rows(nodes []*yaml.Node, into any) {
	all := reflect.ValueOf(into).Elem()
	seen := map[string]int{}
	for _, n := range nodes {
		row := reflect.New(all.Type().Elem()).Elem()
		r.value(n, row, "")
		all.Set(reflect.Append(all, row))
		for _, key := range [...]string{"id", "go", "code"} {
			v := child(n, key)
			if v == nil {
				continue
			}
			if line, twice := seen[key+" "+v.Value]; twice {
				r.bad(v, "%s %q is that of line %d, too", key, v.Value, line)
			}
			seen[key+" "+v.Value] = v.Line
		}
	}
}

// custom is a type with its own form in the file.
type custom interface {
	read(r *reader, n *yaml.Node)
}

// value decodes n into v. of is the type whose words a string must be one of, "" for any text.
func (r *reader) value(n *yaml.Node, v reflect.Value, of string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if c, ok := v.Addr().Interface().(custom); ok {
		c.read(r, n)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.text(n, of))
	case reflect.Int:
		i, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			r.bad(n, "want a number, not %q", n.Value)
		}
		v.SetInt(int64(i))
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.Value != "true" {
			r.bad(n, "want true, or nothing at all")
		}
		v.SetBool(true)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
			r.bad(n, "want a list with something in it")
			return
		}
		for _, item := range n.Content {
			e := reflect.New(v.Type().Elem()).Elem()
			r.value(item, e, of)
			v.Set(reflect.Append(v, e))
		}
	case reflect.Struct:
		r.mapping(n, v)
	}
}

// text returns a scalar, which must not be empty, and must be a word of its vocabulary if it has one.
func (r *reader) text(n *yaml.Node, of string) string {
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		r.bad(n, "want a text")
	case strings.TrimSpace(n.Value) == "":
		r.bad(n, "is empty")
	case of != "" && r.words[of][n.Value] == "":
		r.bad(n, "unknown %s %q", noun(of), n.Value)
	}
	return n.Value
}

func (r *reader) mapping(n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, "want a mapping")
		return
	}
	fields := fieldsOf(v.Type())
	given := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		f, known := fields[key.Value]
		switch {
		case !known:
			r.bad(key, "unknown key %q", key.Value)
		case given[key.Value]:
			r.bad(key, "%q is here twice", key.Value)
		default:
			r.value(n.Content[i+1], v.FieldByIndex(f.Index), f.Tag.Get("of"))
		}
		given[key.Value] = true
	}
	var lacks []string
	for key, f := range fields {
		if !given[key] && !strings.HasSuffix(f.Tag.Get("yaml"), ",omitempty") {
			lacks = append(lacks, strconv.Quote(key))
		}
	}
	if slices.Sort(lacks); len(lacks) > 0 {
		r.bad(n, "lacks %s", strings.Join(lacks, ", "))
	}
	if c, ok := v.Addr().Interface().(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			r.bad(n, "%v", err)
		}
	}
}

// fieldsOf returns the fields of a struct by their keys, including those of embedded structs.
func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	out := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); key != "" {
			out[key] = f
		}
	}
	return out
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// inOrder joins mistakes by file and line.
func inOrder(found []error) error {
	slices.SortStableFunc(found, func(a, b error) int {
		var x, y mistake
		if !errors.As(a, &x) || !errors.As(b, &y) || x.file != y.file {
			return 0
		}
		return x.line - y.line
	})
	return errors.Join(found...)
}
