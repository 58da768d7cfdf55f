package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag"
)

// TestFactsBlame: --facts blame writes a small document with the same exit code. Read back, it is shown as it was
// judged, with a note; operations that need the other facts refuse it or report that it cannot be compared.
func TestFactsBlame(t *testing.T) {
	t.Setenv("GPUAASCTL_HISTORY", "off")
	const whole = "../../golden/reports/three-faults.json"
	code, small, notes := said(t, "preflight", whole, "--facts", "blame", "-o", "json", "--color", "never")
	r := &diag.Report{}
	if err := json.Unmarshal([]byte(small), r); err != nil || code != cmdutil.ExitFailed || notes != "" {
		t.Fatalf("exit code %d, %v: %s", code, err, notes)
	}
	if r.FactsKept != diag.FactsBlame || len(r.Facts) == 0 || len(small) > 80_000 {
		t.Errorf("%d facts in %d bytes, kept %q", len(r.Facts), len(small), r.FactsKept)
	}
	file := filepath.Join(t.TempDir(), "small.json")
	if err := os.WriteFile(file, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	code, again, notes := said(t, "preflight", file, "-o", "json")
	if code != cmdutil.ExitFailed || again != small ||
		!strings.Contains(notes, "(--facts blame), so it is shown as rules ") {
		t.Errorf("read again: exit code %d, the same %t, %s", code, again == small, notes)
	}
	code, out, _ := said(t, "history", "diff", whole, file, "-o", "json")
	if code != cmdutil.ExitPass || !bytes.Contains([]byte(out), []byte(`"comparable": false`)) {
		t.Errorf("diff: exit code %d, %s", code, out)
	}
	code, out, notes = said(t, "diag", "trust", file)
	if code != cmdutil.ExitUsage || out != "" || !strings.Contains(notes, "--facts blame") {
		t.Errorf("trust: exit code %d, %s%s", code, out, notes)
	}
	code, out, notes = said(t, "preflight", whole, "--compare", file)
	if code != cmdutil.ExitUsage || out != "" || !strings.Contains(notes, "--facts blame") {
		t.Errorf("compare: exit code %d, %s%s", code, out, notes)
	}
}
