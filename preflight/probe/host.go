package probe

import (
	"context"

	"github.com/gpuaas/gpuaasctl/diag"
)

// AgentView is the running agent as the node's probe sees it. The zero value is "no agent known".
type AgentView struct {
	Unit    string            // systemd unit
	EnvFile string            // fallback when no process runs
	PID     int               // main process, 0 when none
	Source  string            // process | env_file
	Env     map[string]string // only listed names
}

func (p *Prober) disk(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) file(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) cert(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) unit(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) binary(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) user(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) pty(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) clock(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
func (p *Prober) env(ctx context.Context, req diag.Request, f *diag.Fact) {
	f.Failure = diag.Unsupported
}
