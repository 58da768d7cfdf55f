package chaos

import (
	"maps"
	"slices"
)

// sortedKeys is how a map is gone through: a plan must not depend on chance.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
