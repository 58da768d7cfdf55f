package profile

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/strictyaml"
)

// OtherNodes lists the profile's nodes as alternatives to id: "a, b, c"; "" if the profile has id, or no nodes.
func (p *Profile) OtherNodes(id string) string {
	if _, listed := p.Nodes[id]; listed {
		return ""
	}
	return strings.Join(strictyaml.NearestOf(id, slices.Collect(maps.Keys(p.Nodes))), ", ")
}
