package chaoscmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/cmdutil"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/xunit"
)

// TestJUnitOfEveryDrill: Jenkins accepts the file for each recorded drill.
func TestJUnitOfEveryDrill(t *testing.T) {
	drills, _ := filepath.Glob("../../../../../golden/drills/*.ndjson")
	if len(drills) < 20 {
		t.Fatalf("%d drills are recorded", len(drills))
	}
	for _, path := range drills {
		var all drill.Sources
		if err := all.Add(path, false); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		r, err := all.Report()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var b bytes.Buffer
		if err := drillrender.Report(&b, r, render.Options{Format: render.JUnit}); err != nil {
			t.Fatal(err)
		}
		if err := xunit.Check(b.Bytes()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestFactsAreBounded: a plan that would decode into gigabytes is refused for its contents, with its name.
func TestFactsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.json")
	text := `{"kind":"DrillPlan","facts":{"machines":[{}` + strings.Repeat(",{}", 500_000) + "]}}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFacts(t.Context(), &cmdutil.App{}, path); cmdutil.CodeOf(err) != cmdutil.ExitUsage ||
		!strings.Contains(err.Error(), "list elements") || !strings.Contains(err.Error(), path) {
		t.Errorf("facts of a plan: %v", err)
	}
}
