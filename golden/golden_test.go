package golden

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// TestRecordedReports judges every recording by today's rules: the verdict must be the table's. The recordings are
// never rewritten, so a changed rule changes lines of verdicts.txt and nothing else.
func TestRecordedReports(t *testing.T) {
	expected := map[string]Expect{}
	for _, e := range Faults() {
		expected["reports/"+e.Name+".json"] = e
	}
	var fields strings.Builder
	seen, share := 0, Share{}
	for _, path := range recordings(t) {
		again := recorded(t, path)
		fields.WriteString(VerdictFields(path, again) + "\n")
		share.Add(path, &again.Verdict)
		want, ok := expected[path]
		switch {
		case path == "reports/healthy.json":
			if again.Verdict.Outcome != diag.OutcomePass {
				t.Errorf("%s: outcome %s", path, again.Verdict.Outcome)
			}
		case ok:
			seen++
			for _, problem := range want.Check(again) {
				t.Errorf("%s: %s", path, problem)
			}
		case strings.HasPrefix(path, "reports/"):
			t.Errorf("%s: no expectation", path)
		}
	}
	if seen != len(expected) {
		t.Errorf("%d of %d expectations have a recording", seen, len(expected))
	}
	goldentest.Check(t, "verdicts.txt", fields.String()+shareLines(&share))
}

// recordings lists every recorded report, sorted.
func recordings(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, folder := range []string{"reports", "matrix"} {
		found, err := filepath.Glob(folder + "/*.json")
		if err != nil || len(found) == 0 {
			t.Fatalf("no recording in %s: %v", folder, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// some returns all names; under -short, which is the race detector's run, one of eight: the code is the same.
func some(names []string) []string {
	if !testing.Short() {
		return names
	}
	var few []string
	for i := 0; i < len(names); i += 8 {
		few = append(few, names[i])
	}
	return few
}

// recorded reads a report and judges its facts twice: the second time changes nothing.
func recorded(t *testing.T, path string) *diag.Report {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &diag.Report{}
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	again, err := verdict.Replay(hops.BuiltIn(), r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	twice, err := verdict.Replay(hops.BuiltIn(), again)
	if err != nil {
		t.Fatalf("%s: replayed, then replayed again: %v", path, err)
	}
	if !bytes.Equal(asDocument(t, again), asDocument(t, twice)) {
		t.Errorf("%s: a replay of its replay is another document", path)
	}
	return again
}

func asDocument(t *testing.T, r *diag.Report) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := render.Report(&out, r, render.Options{Format: render.JSON}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestExpectationsAreClosed: no duplicate names, and no unknown hop or signal.
func TestExpectationsAreClosed(t *testing.T) {
	names := map[string]bool{}
	for _, e := range Faults() {
		if names[e.Name] {
			t.Errorf("%s is there twice", e.Name)
		}
		names[e.Name] = true
		for _, id := range append(append([]diag.HopID{e.Hop}, e.First...), e.Green...) {
			if !slices.Contains(diag.HopIDs(), id) {
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

// TestAnyFactMayBeMissing: a recording without one of its facts is still judged, even if the first of several repeated
// requests is missing. A report whose own proof names that fact is refused.
func TestAnyFactMayBeMissing(t *testing.T) {
	for _, path := range some(recordings(t)) {
		whole := recorded(t, path)
		for i := range whole.Facts {
			part := *whole
			part.Facts = slices.Delete(slices.Clone(whole.Facts), i, i+1)
			if _, err := verdict.Replay(hops.BuiltIn(), &part); err != nil && !errors.Is(err, verdict.ErrInvalidReport) {
				t.Errorf("%s without %s: %v", path, whole.Facts[i].ID, err)
			}
			part.Verdict = diag.Verdict{}
			if _, err := verdict.Replay(hops.BuiltIn(), &part); err != nil {
				t.Errorf("%s without %s: %v", path, whole.Facts[i].ID, err)
			}
		}
	}
}
