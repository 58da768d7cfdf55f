package diag

import (
	"regexp"
	"testing"
)

// TestOwnHops: the schemas and the code that reads a profile use the same pattern for the ids of a profile's hops.
func TestOwnHops(t *testing.T) {
	form := regexp.MustCompile(OwnHopPattern)
	for _, id := range []HopID{"x.vpn", "x.0", "x.a_b", "x.", "x._a", "x.A", "x.a-b", "x.a b", "y.vpn", "vpn", "",
		"x.a\n"} {
		if id.Valid() != form.MatchString(string(id)) {
			t.Errorf("%q is valid: %t", id, id.Valid())
		}
	}
	for _, id := range HopIDs() {
		if !id.Valid() || form.MatchString(string(id)) {
			t.Errorf("%s is no hop of the catalogue", id)
		}
	}
}
