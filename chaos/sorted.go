package chaos

import (
	"maps"
	"slices"
)

// sortedKeys orders the iteration over a map: a plan must be deterministic.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
