package chaos

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// wasGreen is the control of a drill that runs in any environment.
const wasGreen = "was-green"

// StayGreen says which hops must stay green: those of a list, or, by the word was-green, all that were green before
// anything was touched and are not expected to fail.
type StayGreen struct {
	WasGreen bool         `yaml:"-" json:"-"`
	Hops     []diag.HopID `yaml:"-" json:"-"`
}

// IsZero reports whether nothing must stay green.
func (g StayGreen) IsZero() bool { return !g.WasGreen && len(g.Hops) == 0 }

// UnmarshalYAML reads the word was-green or a list of hops.
func (g *StayGreen) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		if n.Value != wasGreen {
			return strictyaml.LineError(n, fmt.Sprintf("want %s, or a list of hops, not %q", wasGreen, n.Value))
		}
		g.WasGreen = true
		return nil
	}
	return n.Decode(&g.Hops)
}

// MarshalYAML writes the format that UnmarshalYAML reads.
func (g StayGreen) MarshalYAML() (any, error) {
	if g.WasGreen {
		return wasGreen, nil
	}
	return g.Hops, nil
}

// MarshalJSON writes the same format.
func (g StayGreen) MarshalJSON() ([]byte, error) {
	if g.WasGreen {
		return json.Marshal(wasGreen)
	}
	return json.Marshal(g.Hops)
}

// UnmarshalJSON reads the same format: a plan is stored as JSON.
func (g *StayGreen) UnmarshalJSON(text []byte) error {
	if string(text) == `"`+wasGreen+`"` {
		*g = StayGreen{WasGreen: true}
		return nil
	}
	return bounded.Unmarshal(text, &g.Hops, bounded.Small())
}
