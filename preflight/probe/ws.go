package probe

import (
	"context"

	"github.com/gpuaas/gpuaasctl/diag"
)

func (p *Prober) ws(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) session(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
