package strictyaml

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a file: far more than people write, and small enough that reading any file takes a moment. The decoder
// compares every pair of fields in a mapping, and keeps some hundred bytes per value.
const (
	mostBytes  = 2 << 20
	mostValues = 100_000 // with those that aliases repeat
	mostFields = 10_000  // per mapping
	mostDeep   = 100     // nesting of lists and mappings
	mostKeys   = 16 << 20
	mostErrors = 50 // listed per file
)

// measured is the state of a traversal of a document, before anything follows its aliases.
type measured struct {
	values, keys int // keys: bytes of the dotted keys of all values
	around       []*yaml.Node
	at           []string            // the parts of the dotted key
	seen         map[*yaml.Node]bool // mappings whose fields were compared
	twice        []Problem
}

// measure finds why a document cannot be read: it is circular, too large, or has a duplicate field.
func measure(root *yaml.Node) []Problem {
	m := measured{seen: map[*yaml.Node]bool{}}
	if p := m.walk(root, 0); p != nil {
		return []Problem{*p}
	}
	return m.twice
}

// walk measures a node whose dotted key has key bytes.
func (m *measured) walk(n *yaml.Node, key int) *Problem {
	m.values++
	m.keys += key
	bad := func(format string, args ...any) *Problem {
		return &Problem{Line: n.Line, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case m.values > mostValues:
		return bad("holds more than %d values, those that aliasing repeats among them", mostValues)
	case m.keys > mostKeys:
		return bad("the names of its fields are too long")
	case len(m.around) > mostDeep:
		return bad("is nested more than %d deep", mostDeep)
	case n.Kind == yaml.AliasNode && slices.Contains(m.around, n.Alias):
		return bad("anchor '%s' value contains itself", n.Value)
	case n.Kind == yaml.AliasNode:
		return m.walk(n.Alias, key)
	case n.Kind == yaml.MappingNode && len(n.Content) > 2*mostFields:
		return bad("holds more than %d fields", mostFields)
	}
	if n.Kind == yaml.MappingNode && !m.seen[n] {
		m.seen[n] = true
		m.compare(n)
	}
	m.around = append(m.around, n)
	for i, c := range n.Content {
		part := ""
		switch {
		case n.Kind == yaml.SequenceNode:
			part = "[" + strconv.Itoa(i) + "]"
		case n.Kind == yaml.MappingNode:
			part = "." + nameOf(n.Content[i-i%2])
		}
		m.at = append(m.at, part)
		if p := m.walk(c, key+len(part)); p != nil {
			return p
		}
		m.at = m.at[:len(m.at)-1]
	}
	m.around = m.around[:len(m.around)-1]
	return nil
}

// compare records the duplicate fields of a mapping.
func (m *measured) compare(n *yaml.Node) {
	type name struct {
		kind  yaml.Kind
		value string
	}
	lines := make(map[name]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		line, k := n.Content[i].Line, n.Content[i]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		first, twice := lines[name{k.Kind, k.Value}]
		if !twice {
			lines[name{k.Kind, k.Value}] = line
			continue
		}
		m.twice = append(m.twice, Problem{
			Key: strings.TrimPrefix(strings.Join(m.at, "")+"."+k.Value, "."), Line: line,
			Text: fmt.Sprintf("mapping key %q already defined at line %d", k.Value, first),
		})
	}
}
