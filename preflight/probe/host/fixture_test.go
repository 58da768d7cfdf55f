package host

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/kit"
)

func run(t *testing.T, req diag.Request) diag.Fact {
	t.Helper()
	return kit.Run(kit.Patient(t), &Prober{}, req)
}
