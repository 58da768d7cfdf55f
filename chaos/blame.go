package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// none is the blame of a drill that nothing may notice.
const none = "none"

// UnmarshalYAML reads the word none or a finding.
func (b *Blame) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		if n.Value != none {
			return lineError(n, fmt.Sprintf("want %s, or a finding with hop and signal, not %q", none, n.Value))
		}
		b.None = true
		return nil
	}
	return n.Decode(&b.Finding)
}

// MarshalJSON writes what UnmarshalYAML reads.
func (b Blame) MarshalJSON() ([]byte, error) {
	if b.None {
		return json.Marshal(none)
	}
	return json.Marshal(b.Finding)
}

// UnmarshalJSON reads it back: a plan is kept as JSON.
func (b *Blame) UnmarshalJSON(text []byte) error {
	if string(text) == `"`+none+`"` {
		*b = Blame{None: true}
		return nil
	}
	return bounded.Unmarshal(text, &b.Finding, bounded.Small())
}

// String is "none", or hop and signal with the alternatives: "node_readiness disk_full".
func (b Blame) String() string {
	if b.None {
		return none
	}
	return b.Finding.String()
}

// String is hop, signal and failure, alternatives by "or".
func (f Finding) String() string {
	s := orList(f.Hop) + " " + orList(f.Signal)
	if len(f.Failure) > 0 {
		s += " (" + orList(f.Failure) + ")"
	}
	return s
}

// Fits says whether a finding of a report is this one.
func (f Finding) Fits(hop diag.HopID, signal diag.Signal, failure diag.Failure) bool {
	return slices.Contains(f.Hop, hop) && slices.Contains(f.Signal, signal) && (len(f.Failure) == 0 || slices.Contains(f.Failure, failure))
}

func orList[T ~string](words []T) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, " or ")
}
