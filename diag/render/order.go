package render

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// counterIDs lists the counter-probes of a fact, sorted.
func counterIDs(id string, facts map[string]*diag.Fact) []string {
	var ids []string
	for k := range facts {
		if strings.HasPrefix(k, id+"~") {
			ids = append(ids, k)
		}
	}
	slices.Sort(ids)
	return ids
}
