package probe

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// clock reads this host's clocks. Now is read first: a vantage compares it with its own.
func (p *Prober) clock(_ context.Context, _ diag.Request, f *diag.Fact) {
	f.Clock = &diag.ClockFacts{Now: diag.At(time.Now())}
	kernelClock(f.Clock)
}
