package chaoscmd

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/cmd/gpuaasctl/internal/recording"
	"github.com/gpuaas/gpuaasctl/ops"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// TestDrillProgress compares the lines for every recorded drill with a golden file.
func TestDrillProgress(t *testing.T) {
	var b strings.Builder
	told := newDrillProgress(&b)
	all := recording.Runs()
	for i, moments := range all {
		for _, m := range moments {
			told(ops.Progress{Index: i, Count: len(all), Event: m.Event, Walk: m.Walk})
		}
	}
	goldentest.Check(t, filepath.Join("testdata", "drill-progress.txt"), b.String())
}
