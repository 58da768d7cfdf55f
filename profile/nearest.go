package profile

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// OtherNodes offers names in place of a node that this profile lacks: "a, b, c", "" where it has the node, or none at
// all.
func (p *Profile) OtherNodes(id string) string {
	if _, listed := p.Nodes[id]; listed {
		return ""
	}
	return strings.Join(strictyaml.NearestOf(id, slices.Collect(maps.Keys(p.Nodes))), ", ")
}
