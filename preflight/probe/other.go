//go:build !linux

package probe

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/gpuaas/gpuaasctl/diag"
)

// errLinuxOnly is the error of measurements that need a node: nodes run Linux.
var errLinuxOnly = errors.New("only on Linux")

func (p *Prober) disk(_ context.Context, _ diag.Request, f *diag.Fact)    { linuxOnly(f) }
func (p *Prober) unit(_ context.Context, _ diag.Request, f *diag.Fact)    { linuxOnly(f) }
func (p *Prober) binary(_ context.Context, _ diag.Request, f *diag.Fact)  { linuxOnly(f) }
func (p *Prober) user(_ context.Context, _ diag.Request, f *diag.Fact)    { linuxOnly(f) }
func (p *Prober) pty(_ context.Context, _ diag.Request, f *diag.Fact)     { linuxOnly(f) }
func (p *Prober) journal(_ context.Context, _ diag.Request, f *diag.Fact) { linuxOnly(f) }
func (p *Prober) env(_ context.Context, _ diag.Request, f *diag.Fact)     { linuxOnly(f) }

func linuxOnly(f *diag.Fact) { fail(f, "", diag.Unsupported, errLinuxOnly) }

// dialAddress opens a connection as net.Dialer does.
func dialAddress(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// isolated is an error of Linux; no other system has this number.
const isolated = syscall.Errno(1 << 15)

// gap is not known here.
func gap(uintptr) bool { return false }

// hungUp is not known here.
func hungUp(uintptr) bool { return false }

// units ask no service.
type units struct{}

func listenerAt(string) *diag.Listener { return nil }

func deniedTo(int, ...string) (string, uint32) { return "", 0 }

func kernelClock(*diag.ClockFacts) {}
func startTime(int) uint64         { return 0 }

// DiscoverAgent finds no agent: agents run on Linux only.
func DiscoverAgent(_ context.Context, unit, envFile string) AgentView {
	return AgentView{Unit: unit, EnvFile: envFile}
}

func (a *AgentView) readProcess()       {}
func (a *AgentView) readFiles([]string) {}

func readShortage(r diag.Resource, _ string, _ bool, _ string) diag.ShortageFacts {
	return diag.ShortageFacts{Resource: r}
}

func readDenial(string) diag.DenialFacts {
	return diag.DenialFacts{Unread: []string{errLinuxOnly.Error()}}
}

// namespace is Linux only.
type namespace struct{ net bool }

func openNamespaces(int, Config) (inside, mounts *namespace, view string) {
	return nil, nil, ViewNoProcess
}

func machinesNetwork(int, Config) *namespace { return nil }

func (n *namespace) answer(_ context.Context, _ diag.Request, plain func() diag.Fact) diag.Fact {
	return plain()
}

func (n *namespace) close() error { return nil }

// resent is not supported here.
func resent(uintptr) (int64, bool) { return 0, false }
