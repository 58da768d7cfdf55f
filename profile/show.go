package profile

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/diag"
)

// YAML writes p as a profile file. With origins, every value has its origin as a comment; an unset value has "default".
func YAML(p Profile, origins Origins) ([]byte, error) {
	var n yaml.Node
	if err := n.Encode(p); err != nil {
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	if origins != nil {
		comment(&n, "", origins)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&n); err != nil {
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	return b.Bytes(), nil
}

func comment(n *yaml.Node, key string, origins Origins) {
	if n.Kind != yaml.MappingNode {
		from, ok := origins[key]
		if !ok {
			from = "default"
		}
		n.LineComment = from
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i].Value
		if key != "" {
			k = key + "." + k
		}
		comment(n.Content[i+1], k, origins)
	}
}

// Document is a profile in machine-readable form, with the keys of the file.
type Document struct {
	diag.Head

	Name    string         `json:"name"`
	Profile map[string]any `json:"profile"`
	Origins Origins        `json:"origins,omitempty"`
}

// NewDocument returns p as a document; origins may be nil.
func NewDocument(p Profile, origins Origins) (*Document, error) {
	text, err := YAML(p, nil)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	return &Document{diag.NewHead("Profile"), p.Name, values, origins}, nil
}
