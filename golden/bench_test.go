package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
)

// BenchmarkReplay judges the recorded faults again, one after the other, as `make bench` does.
func BenchmarkReplay(b *testing.B) {
	files, err := filepath.Glob("reports/*.json")
	if err != nil || len(files) == 0 {
		b.Fatalf("no recordings: %v", err)
	}
	reports := make([]diag.Report, len(files))
	for i, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(data, &reports[i]); err != nil {
			b.Fatalf("%s: %v", f, err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := verdict.Replay(hops.BuiltIn(), &reports[i%len(reports)]); err != nil {
			b.Fatal(err)
		}
	}
}
