package profile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// YAML writes p as a profile file. With origins, every value has its origin as a comment; a value that nobody set
// has "default".
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

// JSON writes p as {"name", "profile", "origins"?}, with the file's own keys.
func JSON(p Profile, origins Origins) ([]byte, error) {
	text, err := YAML(p, nil)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	doc := struct {
		Name    string         `json:"name"`
		Profile map[string]any `json:"profile"`
		Origins Origins        `json:"origins,omitempty"`
	}{p.Name, values, origins}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode profile: %w", err)
	}
	return append(out, '\n'), nil
}
