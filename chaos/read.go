package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/profile"
)

// maxFile bounds the file of a scenario or a book, in bytes.
const maxFile = 64 << 10

// Parse reads one scenario strictly; path is for messages. The error joins one *profile.FileError per mistake, each with
// its line and field.
func Parse(path string, data []byte) (Scenario, error) {
	s := Scenario{}
	lines, found, err := document(path, data, &s, "metadata, target, guards, faults, verifyInjected, expect, recovery, evidence")
	if err != nil {
		return s, err
	}
	s.File, s.Source = path, Source{Doubt: "where it came from is not known"} // unless the reader of the file says
	if len(found) == 0 {                                                      // of a file that did not decode, the values say nothing
		found = s.settle()
	}
	return s, joined(path, lines, found)
}

// document reads a file's one YAML document strictly into a struct, a pointer to which is into. lines are where its values
// stand, by key; found is what the struct has no place for. The error is that it is no such document at all: want lists the
// fields that it should have.
func document(path string, data []byte, into any, want string) (lines map[string]int, found []problem, err error) {
	if len(data) > maxFile {
		return nil, nil, &profile.FileError{Path: path, Message: fmt.Sprintf("is larger than %d bytes", maxFile)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	if err := dec.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, joined(path, nil, syntax(err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, nil, &profile.FileError{Path: path, Message: "holds more than one YAML document"}
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil, nil, &profile.FileError{Path: path, Line: 1, Message: "want a mapping with " + want}
	}
	lines = map[string]int{}
	index(root.Content[0], "", lines)
	found = append(unknown(root.Content[0], reflect.TypeOf(into), ""), unseen(&root)...)
	if err := root.Decode(into); err != nil {
		found = append(found, named(typeProblems(err), lines)...)
	}
	return lines, found, nil
}

// unseen finds texts that a terminal would not show as they are: escapes make them, which the file itself has not.
func unseen(n *yaml.Node) []problem {
	var found []problem
	if n.Kind == yaml.ScalarNode && strings.ContainsFunc(n.Value, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }) {
		found = append(found, problem{line: n.Line, text: fmt.Sprintf("%q has characters that are not seen", n.Value)})
	}
	for _, c := range n.Content {
		found = append(found, unseen(c)...)
	}
	return found
}

// problem is one mistake: where by dotted key ("faults[0].params.verdict"), and what.
type problem struct {
	key  string
	line int
	text string
}

func (p problem) String() string {
	if p.key == "" {
		return p.text
	}
	return p.key + ": " + p.text
}

// lineOf is the line of the key, or of the nearest thing around it that is in the file.
func lineOf(p problem, lines map[string]int) int {
	if p.line != 0 {
		return p.line
	}
	for key := p.key; key != ""; {
		if line, ok := lines[key]; ok {
			return line
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return 1
}

// joined is one error for each problem, in the order of their lines.
func joined(path string, lines map[string]int, found []problem) error {
	for i := range found {
		found[i].line = lineOf(found[i], lines)
	}
	slices.SortStableFunc(found, func(a, b problem) int { return a.line - b.line })
	errs := make([]error, len(found))
	for i, p := range found {
		errs[i] = &profile.FileError{Path: path, Line: p.line, Message: p.String()}
	}
	return errors.Join(errs...)
}

// index notes the line of every value by its key.
func index(n *yaml.Node, key string, lines map[string]int) {
	if key != "" {
		lines[key] = n.Line
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := under(key, n.Content[i].Value)
			index(n.Content[i+1], k, lines)
			lines[k] = n.Content[i].Line
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			index(c, fmt.Sprintf("%s[%d]", key, i), lines)
		}
	}
}

func under(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// unknown lists the fields of n that the type t has not, and those that stand twice. Parameters of faults are looked at
// when their kind is known.
func unknown(n *yaml.Node, t reflect.Type, key string) []problem {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Params]():
		return nil
	case n.Kind == yaml.AliasNode || n.Kind == yaml.MappingNode && n.Anchor != "":
		return []problem{{key, n.Line, "anchors and aliases are not for drills: who reads one must see what it does"}}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		var found []problem
		for i, c := range n.Content {
			found = append(found, unknown(c, t.Elem(), fmt.Sprintf("%s[%d]", key, i))...)
		}
		return found
	case n.Kind != yaml.MappingNode || t.Kind() != reflect.Struct:
		return nil
	}
	fields := fieldsOf(t)
	var found []problem
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		f, ok := fields[name.Value]
		if !ok {
			found = append(found, problem{under(key, name.Value), name.Line, "unknown field" + profile.Nearest(name.Value, keysOf(fields))})
			continue
		}
		found = append(found, unknown(n.Content[i+1], f, under(key, name.Value))...)
	}
	return found
}

// fieldsOf are the fields of a struct by the name that they have in a file.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case tag == "-" || !f.IsExported():
		case strings.Contains(rest, "inline") || f.Anonymous && tag == "":
			for k, v := range fieldsOf(f.Type) {
				fields[k] = v
			}
		case tag != "":
			fields[tag] = f.Type
		}
	}
	return fields
}

func keysOf(fields map[string]reflect.Type) []string {
	var keys []string
	for k := range fields {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// syntax is a text that is no YAML.
func syntax(err error) []problem {
	p := problem{text: strings.TrimPrefix(err.Error(), "yaml: ")}
	p.line, p.text = cutLine(p.text)
	return []problem{p}
}

func typeProblems(err error) []problem {
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return syntax(err)
	}
	var found []problem
	for _, m := range te.Errors {
		line, text := cutLine(m)
		found = append(found, problem{line: line, text: typeWords(text)})
	}
	return found
}

// named gives problems that the decoder knows only by line the key of that line: the longest, if there are several.
func named(found []problem, lines map[string]int) []problem {
	for i, p := range found {
		for key, line := range lines {
			if line == p.line && (len(key) > len(found[i].key) || len(key) == len(found[i].key) && key < found[i].key) {
				found[i].key = key
			}
		}
	}
	return found
}

// cutLine splits "line 3: message".
func cutLine(m string) (int, string) {
	if rest, ok := strings.CutPrefix(m, "line "); ok {
		if number, text, ok := strings.Cut(rest, ": "); ok {
			if line, err := strconv.Atoi(number); err == nil {
				return line, text
			}
		}
	}
	return 0, m
}

// typeWords rewrites the decoder's words about types for somebody who writes a scenario.
func typeWords(m string) string {
	rest, ok := strings.CutPrefix(m, "cannot unmarshal ")
	got, typ, split := strings.Cut(rest, " into ")
	if !ok || !split {
		return m
	}
	want := "a mapping"
	switch {
	case strings.HasPrefix(typ, "[]"):
		want = "a list"
	case typ == "string", strings.HasPrefix(typ, "diag."), typ == "chaos.Role", typ == "step.Class":
		want = "a text"
	case typ == "bool":
		want = "true or false"
	case strings.HasPrefix(typ, "int"), strings.HasPrefix(typ, "uint"):
		want = "a whole number"
	}
	if _, value, quoted := strings.Cut(got, " `"); quoted {
		return fmt.Sprintf("want %s, not %q", want, strings.TrimSuffix(value, "`"))
	}
	return fmt.Sprintf("want %s here", want)
}
