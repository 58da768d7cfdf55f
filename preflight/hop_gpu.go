package preflight

import (
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// gpuHealth has its place in the chain; its facts come with gpuaas-gpu-probe. Until then the plan skips it and says so.
func gpuHealth() Hop {
	return Hop{
		ID: diag.HopGPUHealth, Title: "GPUs are healthy", Layer: diag.LayerManagement, Budget: 5 * time.Second,
		Judge: func(*Case) []diag.Finding { return nil },
	}
}
