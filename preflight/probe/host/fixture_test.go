package host

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

func run(t *testing.T, req diag.Request) diag.Fact {
	t.Helper()
	return kit.Run(kit.Patient(t), &Prober{}, req)
}
