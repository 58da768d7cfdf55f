//go:build !linux

package host

import (
	"context"
	"errors"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// errLinuxOnly is the error of measurements that need a node: nodes run Linux.
var errLinuxOnly = errors.New("only on Linux")

func (p *Prober) disk(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *Prober) unit(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *Prober) binary(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *Prober) user(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *Prober) journal(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *Prober) env(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *Prober) machine(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *Prober) mounts(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *Prober) kernel(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func linuxOnly(f *diag.Fact) { measure.Fail(f, "", diag.Unsupported, errLinuxOnly) }

// units ask no service.
type units struct{}

func listenerAt(string) *diag.Listener { return nil }

func deniedTo(int, ...string) (string, uint32) { return "", 0 }

func kernelClock(*diag.ClockFacts) {}

func StartTime(int) uint64 { return 0 }

// DiscoverAgent finds no agent: agents run on Linux only.
func DiscoverAgent(_ context.Context, unit, envFile string) AgentView {
	return AgentView{Unit: unit, EnvFile: envFile}
}

func (a *AgentView) variable(string) (string, error) { return "", errLinuxOnly }

// ReadEnv reads nothing.
func (a *AgentView) ReadEnv(...string) {}

func readShortage(r diag.Resource, _ string, _ bool, _ string) diag.ShortageFacts {
	return diag.ShortageFacts{Resource: r}
}

func readDenial(string) diag.DenialFacts {
	return diag.DenialFacts{Unread: []string{errLinuxOnly.Error()}}
}
