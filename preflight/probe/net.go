package probe

import (
	"context"

	"github.com/gpuaas/gpuaasctl/diag"
)

type pool struct{}

func (p *Prober) dns(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) tcp(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) tls(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) http(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) ws(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) session(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
