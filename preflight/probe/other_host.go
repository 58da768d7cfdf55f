//go:build !linux

package probe

import (
	"context"
	"errors"

	"github.com/gpuaas/gpuaasctl/diag"
)

// errLinuxOnly is the error of measurements that need a node: nodes run Linux.
var errLinuxOnly = errors.New("only on Linux")

func (p *hostProber) disk(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *hostProber) unit(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *hostProber) binary(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *hostProber) user(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *hostProber) journal(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func (p *hostProber) env(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }

func linuxOnly(f *diag.Fact) { fail(f, "", diag.Unsupported, errLinuxOnly) }

// units ask no service.
type units struct{}

func listenerAt(string) *diag.Listener { return nil }

func deniedTo(int, ...string) (string, uint32) { return "", 0 }

func kernelClock(*diag.ClockFacts) {}

func startTime(int) uint64 { return 0 }

// DiscoverAgent finds no agent: agents run on Linux only.
func DiscoverAgent(_ context.Context, unit, envFile string) AgentView {
	return AgentView{Unit: unit, EnvFile: envFile}
}

func (a *AgentView) readProcess() {}

func (a *AgentView) readFiles([]string) {}

func readShortage(r diag.Resource, _ string, _ bool, _ string) diag.ShortageFacts {
	return diag.ShortageFacts{Resource: r}
}

func readDenial(string) diag.DenialFacts {
	return diag.DenialFacts{Unread: []string{errLinuxOnly.Error()}}
}
