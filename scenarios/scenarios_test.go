package scenarios_test

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

func TestEveryFileReads(t *testing.T) {
	all, err := chaos.Load(scenarios.Files, "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 38 {
		t.Errorf("%d drills", len(all))
	}
}
