package golden

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/goldentest"
	"github.com/gpuaas/gpuaasctl/preflight"
)

// TestRecordedReports judges every recording again: the verdict is the table's, and the report the same byte for byte.
func TestRecordedReports(t *testing.T) {
	expected := map[string]Expect{}
	for _, e := range Faults() {
		expected[e.Name] = e
	}
	entries, err := os.ReadDir("reports")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".json")
		if !ok {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("reports/" + entry.Name())
			if err != nil {
				t.Fatal(err)
			}
			var r diag.Report
			if err := json.Unmarshal(data, &r); err != nil {
				t.Fatal(err)
			}
			again, err := preflight.Replay(&r)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := render.Report(&out, again, render.Options{Format: "json"}); err != nil {
				t.Fatal(err)
			}
			goldentest.Check(t, "reports/"+entry.Name(), out.String()) // the facts stay, the words are today's
			want, ok := expected[name]
			if !ok && name != "healthy" {
				t.Fatalf("no expectation for %s", name)
			}
			if name == "healthy" {
				if again.Verdict.Outcome != diag.OutcomePass {
					t.Errorf("outcome %s", again.Verdict.Outcome)
				}
				return
			}
			for _, problem := range want.Check(again) {
				t.Error(problem)
			}
		})
	}
	if seen < len(expected)+1 {
		t.Errorf("%d recordings, %d expectations and the healthy one", seen, len(expected))
	}
}

// TestExpectationsAreClosed: no name twice, no hop or signal that does not exist.
func TestExpectationsAreClosed(t *testing.T) {
	names := map[string]bool{}
	for _, e := range Faults() {
		if names[e.Name] {
			t.Errorf("%s stands twice", e.Name)
		}
		names[e.Name] = true
		for _, id := range append(append([]diag.HopID{e.Hop}, e.First...), e.Green...) {
			if !slices.Contains(diag.Hops[:], id) {
				t.Errorf("%s: no hop %q", e.Name, id)
			}
		}
		for _, s := range e.Signal {
			if _, ok := diag.LookupSignal(s); !ok {
				t.Errorf("%s: no signal %q", e.Name, s)
			}
		}
	}
}
