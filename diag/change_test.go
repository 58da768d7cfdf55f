package diag

import (
	"slices"
	"testing"
)

// TestChangesAreClosed: every kind has one row, with words and a gate that exist.
func TestChangesAreClosed(t *testing.T) {
	kinds, gates := declared(t, "ChangeKind"), declared(t, "Gate")
	seen, labels := map[ChangeKind]bool{}, map[string]bool{}
	for _, row := range Changes() {
		if seen[row.Kind] || labels[row.Label] || row.Label == "" {
			t.Errorf("%s: twice, or without words of its own", row.Kind)
		}
		seen[row.Kind], labels[row.Label] = true, true
		if !slices.Contains(kinds, string(row.Kind)) || !slices.Contains(gates, string(row.Gate)) {
			t.Errorf("%s, gate %q: not declared", row.Kind, row.Gate)
		}
	}
	for _, k := range kinds {
		if !seen[ChangeKind(k)] {
			t.Errorf("%s has no row", k)
		}
	}
	if _, ok := LookupChange("no such change"); ok {
		t.Error("a kind that does not exist has a row")
	}
}
