package chaos

import (
	"encoding/json"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// Params are a fault's parameters as written in its file; the kind interprets them.
type Params struct{ node *yaml.Node }

// UnmarshalYAML stores the parameters without interpreting them.
func (p *Params) UnmarshalYAML(n *yaml.Node) error {
	p.node = n
	return nil
}

// MarshalJSON writes the parameters as the file has them.
func (p Params) MarshalJSON() ([]byte, error) {
	if p.node == nil {
		return []byte("{}"), nil
	}
	var v any
	if err := p.node.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// UnmarshalJSON reads the parameters: JSON is YAML.
func (p *Params) UnmarshalJSON(text []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	p.node = doc.Content[0]
	return nil
}

// decode substitutes the variables and decodes the rest into into, a pointer to the kind's own struct. key is used
// in messages.
func (p Params) decode(into any, key string, fill func(string) (string, error)) []problem {
	n := p.node
	if n == nil {
		n = &yaml.Node{Kind: yaml.MappingNode}
	}
	if n.Kind != yaml.MappingNode {
		return []problem{{Key: key, Line: n.Line, Text: "want a mapping of parameters"}}
	}
	found := strictyaml.Unknown(n, reflect.TypeOf(into), key)
	filled, more := filledIn(n, key, fill)
	found = append(found, more...)
	if len(found) > 0 {
		return found
	}
	return strictyaml.Decode(filled, into, key)
}

// filledIn returns a copy of n with the variables in its texts substituted.
func filledIn(n *yaml.Node, key string, fill func(string) (string, error)) (*yaml.Node, []problem) {
	c := *n
	var found []problem
	if n.Kind == yaml.ScalarNode {
		value, err := fill(n.Value)
		if err != nil {
			return n, []problem{{Key: key, Line: n.Line, Text: err.Error()}}
		}
		if value != n.Value {
			c.Value = value
			if strings.HasPrefix(n.Value, "${") && strings.Index(n.Value, "}") == len(n.Value)-1 {
				c.Tag, c.Style = "", 0 // "${api_port}" alone becomes a number
			}
		}
		return &c, nil
	}
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		filled, more := filledIn(child, childKey(n, i, key), fill)
		c.Content[i], found = filled, append(found, more...)
	}
	return &c, found
}

func childKey(n *yaml.Node, i int, key string) string {
	if n.Kind == yaml.MappingNode && i%2 == 1 {
		return strictyaml.Under(key, n.Content[i-1].Value)
	}
	return key
}
