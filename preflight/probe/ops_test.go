package probe

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestEveryOpIsMeasured: every operation has its function here, except for the login, which only a vantage can measure.
func TestEveryOpIsMeasured(t *testing.T) {
	var p Prober
	for _, op := range diag.Ops() {
		if has := p.Net.Operation(op) != nil || p.Host.Operation(op) != nil; has != (op != diag.OpSSH) {
			t.Errorf("%s has a function: %v", op, has)
		}
	}
}
