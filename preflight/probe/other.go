//go:build !linux

package probe

import (
	"context"
	"errors"

	"github.com/gpuaas/gpuaasctl/diag"
)

// errLinuxOnly is the answer to measurements of a node where no node can be.
var errLinuxOnly = errors.New("only on Linux")

func (p *Prober) disk(_ context.Context, _ diag.Request, f *diag.Fact)    { linuxOnly(f) }
func (p *Prober) unit(_ context.Context, _ diag.Request, f *diag.Fact)    { linuxOnly(f) }
func (p *Prober) binary(_ context.Context, _ diag.Request, f *diag.Fact)  { linuxOnly(f) }
func (p *Prober) user(_ context.Context, _ diag.Request, f *diag.Fact)    { linuxOnly(f) }
func (p *Prober) pty(_ context.Context, _ diag.Request, f *diag.Fact)     { linuxOnly(f) }
func (p *Prober) journal(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }
func (p *Prober) env(_ context.Context, _ diag.Request, f *diag.Fact)     { linuxOnly(f) }

func linuxOnly(f *diag.Fact) { fail(f, "", diag.Unsupported, errLinuxOnly) }

// units ask nobody.
type units struct{}

func kernelClock(*diag.ClockFacts) {}
func bootID() string               { return "" }
func startTime(int) uint64         { return 0 }

// DiscoverAgent finds no agent: there is none but on Linux.
func DiscoverAgent(_ context.Context, unit, envFile string) AgentView {
	return AgentView{Unit: unit, EnvFile: envFile}
}

func (a *AgentView) readProcess()       {}
func (a *AgentView) readFiles([]string) {}
