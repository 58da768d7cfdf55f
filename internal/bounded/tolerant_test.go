package bounded_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// TestTolerantIgnoresAndNames: fields that a newer version added are ignored and named; invalid values are still
// refused.
func TestTolerantIgnoresAndNames(t *testing.T) {
	text := `{"apiVersion":"gpuaasctl/v1","new":{"a":1},"verdict":{"outcome":"pass","risk":3},"Run":{"id":"r"},
"facts":[{"id":"a","at":"2026-05-25T10:00:00.000Z"},{"id":"b","radio":{},"http":{"fields":{"any":"x"}},"tls":{"chain":[{"sct":1}]}}],
"hops":[{"id":"api","status":"pass","luck":1,"also":[{"odds":2}]}],"subject":{"expected":{"x":"y"}}}`
	r := &diag.Report{}
	unknown, err := bounded.Tolerant([]byte(text), r, bounded.Document())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"facts[].radio", "facts[].tls.chain[].sct", "hops[].also[].odds", "hops[].luck", "new",
		"verdict.risk"}
	if !slices.Equal(unknown, want) {
		t.Errorf("%q, want %q", unknown, want)
	}
	if r.Run.ID != "r" || len(r.Facts) != 2 || r.Facts[1].HTTP.Fields["any"] != "x" ||
		r.Verdict.Outcome != diag.OutcomePass {
		t.Errorf("what is known was not read: %+v", r)
	}
	known := &diag.Report{}
	unknown, err = bounded.Tolerant([]byte(`{"verdict":{"outcome":"pass"}}`), known, bounded.Document())
	if err != nil || unknown != nil {
		t.Errorf("%q %v", unknown, err)
	}
	for _, wrong := range []string{`{"new":1} {}`, `{"new":1,"facts":3}`, `{"new":1`, `{"new":1,"hops":[{"status":{}}]}`} {
		if _, err := bounded.Tolerant([]byte(wrong), &diag.Report{}, bounded.Document()); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
	if _, err := bounded.Tolerant([]byte(`{"new":1} {}`), &diag.Report{}, bounded.Document()); !errors.Is(err, bounded.ErrMore) {
		t.Errorf("two documents: %v", err)
	}
}

// TestTolerantNamesNotTooMany: a hostile document does not produce a long list.
func TestTolerantNamesNotTooMany(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"kind":"x"`)
	for i := range 5000 {
		fmt.Fprintf(&b, `,"f%d":1`, i)
	}
	b.WriteString("}")
	unknown, err := bounded.Tolerant([]byte(b.String()), &diag.Report{}, bounded.Document())
	if err != nil || len(unknown) != 100 {
		t.Errorf("%d names, %v", len(unknown), err)
	}
}
