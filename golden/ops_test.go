package golden

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestOpsAskAndFillWhatTheirRowsSay: in the recordings, requests and facts have only fields and sections that their
// operation's row names.
func TestOpsAskAndFillWhatTheirRowsSay(t *testing.T) {
	for _, path := range some(recordings(t)) {
		r := recorded(t, path)
		for i := range r.Facts {
			f := &r.Facts[i]
			row := f.Request.Op.Row()
			asks := append(strings.Fields(row.Asks), "op", "view")
			for name := range f.Request.Inputs() {
				if !slices.Contains(asks, name) {
					t.Errorf("%s: %s asks %s with %s, which its row in diag/op.go does not name", path, f.ID, row.Op, name)
				}
			}
			for _, s := range f.Sections() {
				name := strings.ToLower(strings.TrimSuffix(reflect.TypeOf(s).Elem().Name(), "Facts"))
				if !slices.Contains(strings.Fields(row.Fills), name) {
					t.Errorf("%s: %s measured %s with %s, which its row in diag/op.go does not name", path, f.ID, name, row.Op)
				}
			}
		}
	}
}
