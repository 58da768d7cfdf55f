package preflight

import (
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/profile"
)

// gpuHealth has its place in the chain; its facts come with gpuaas-gpu-probe. Until then the plan skips it and says so.
func gpuHealth() Hop {
	return Hop{
		ID: diag.HopGPUHealth, Budget: 5 * time.Second,
		NotGiven: func(*profile.Profile) string { return "not built yet: GPU facts come from gpuaas-gpu-probe" },
		Judge:    func(*Case) []diag.Finding { return nil },
	}
}
