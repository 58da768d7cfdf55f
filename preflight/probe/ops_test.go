package probe

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestEveryOpIsMeasured: every operation has its function here, except for the login, which only a vantage can measure.
func TestEveryOpIsMeasured(t *testing.T) {
	for _, op := range diag.Ops() {
		if has := measurement(op) != nil; has != (op != diag.OpSSH) {
			t.Errorf("%s has a function: %v", op, has)
		}
	}
	for i, m := range measurements {
		if m.op.Row().Does == "" {
			t.Errorf("measurement %d is of %q, which has no row in diag/hop.go", i, m.op)
		}
	}
}
