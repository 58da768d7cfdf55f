package probe

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestEveryOpIsMeasured: every operation has its function here, except for the login, which only a vantage can measure.
func TestEveryOpIsMeasured(t *testing.T) {
	var p Prober
	for _, op := range diag.Ops() {
		if op == diag.OpCommand {
			continue // Prober.Command runs it
		}
		if has := p.Net.Operation(op) != nil || p.Host.Operation(op) != nil; has != (op != diag.OpSSH) {
			t.Errorf("%s has a function: %v", op, has)
		}
	}
}

func TestNameWithoutAValue(t *testing.T) {
	req := diag.Request{Op: diag.OpHTTP, Target: "${GPUAAS_API_URL}/healthz"}
	var p Prober
	if f := p.Run(t.Context(), req); f.Failure != diag.FileMissing || f.Phase != "env" || f.DurationMS == 0 {
		t.Errorf("%q in %q: %s", f.Failure, f.Phase, f.Detail)
	}
	p.Host.Agent.Denied = true
	if f := p.Run(t.Context(), req); f.Failure != diag.NotPermitted || f.Phase != "env" {
		t.Errorf("a denied environment: %q in %q", f.Failure, f.Phase)
	}
}

func TestUnknownOperation(t *testing.T) {
	f := new(Prober).Run(t.Context(), diag.Request{Op: "dowsing"})
	if f.Failure != diag.Unsupported || f.Detail != "no such measurement: dowsing" {
		t.Errorf("%q: %s", f.Failure, f.Detail)
	}
}
