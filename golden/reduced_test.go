package golden

import (
	"encoding/json"
	"io"
	"reflect"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight/compare"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// TestReducedReportsKeepTheirVerdict: a report with only the facts of its verdict has the full report's verdict, even
// after it is read back; it is not compared with another report; and it is much smaller.
func TestReducedReportsKeepTheirVerdict(t *testing.T) {
	whole, small := 0, 0
	for name, r := range walks(t) {
		text := asDocument(t, verdict.Reduce(r))
		whole, small = whole+len(asDocument(t, r)), small+len(text)
		read := &diag.Report{}
		if err := json.Unmarshal(text, read); err != nil {
			t.Fatal(err)
		}
		again, err := verdict.Replay(hops.BuiltIn(), read)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again.FactsKept != diag.FactsBlame || !reflect.DeepEqual(again.Verdict, r.Verdict) ||
			!reflect.DeepEqual(again.Classification, r.Classification) || len(again.Hops) != len(r.Hops) {
			t.Errorf("%s: another verdict: %+v", name, again.Verdict)
		}
		if d := compare.Diff(r, again, nil); d.Comparable || d.Because == "" {
			t.Errorf("%s is compared", name)
		}
		for _, f := range render.Formats {
			if err := render.Report(io.Discard, again, render.Options{Format: f}); err != nil {
				t.Errorf("%s as %s: %v", name, f, err)
			}
		}
		if p := read.Verdict.Proof; p != nil {
			p.Changed = "weather"
			if _, err := verdict.Replay(hops.BuiltIn(), read); err == nil {
				t.Errorf("%s: a proof that its facts refute is taken", name)
			}
		}
	}
	if small*2 > whole {
		t.Errorf("%d bytes of %d are left", small, whole)
	}
	t.Logf("%d bytes of %d are left", small, whole)
}
