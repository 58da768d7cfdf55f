// Package probe measures: it turns a request into a fact. The same code runs on the operator's machine and on a node,
// where `gpuaas-agent probe` serves it over one SSH channel.
//
// Below it, probe/net has what is measured over the network, probe/host what is read of the machine itself,
// probe/measure what both need, and probe/scrub removes secrets from text. Here is what joins them: the Prober of one
// vantage, the protocol between a helper on a node and its operator, and the agent's namespaces.
//
// It gives no verdicts and writes no logs: everything that it measures is in the fact. Callers are the vantages, the
// agent (for probe tasks) and the tests.
package probe

import (
	"github.com/gpuaas/gpuaasctl/preflight/probe/command"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	netprobe "github.com/gpuaas/gpuaasctl/preflight/probe/net"

	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
)

// Prober runs requests at one vantage. The zero value measures from this process, as "operator".
type Prober struct {
	Vantage string    // written to every fact
	Start   time.Time // base of the offsets; zero: the first request

	Net  netprobe.Prober
	Host hostprobe.Prober
	// Command runs the commands of checks; the zero value runs none.
	Command command.Prober

	readings hostprobe.Readings // of this machine
}

// Run makes one measurement. It returns when the measurement is done, or ctx or the request's own time ends, always
// with a fact: a failure is also a fact.
func (p *Prober) Run(ctx context.Context, req diag.Request) diag.Fact {
	op := p.Net.Operation(req.Op)
	if op == nil {
		op = p.Host.Operation(req.Op)
	}
	if req.Op == diag.OpCommand {
		op = p.Command.Run
	}
	return p.measure(ctx, req, op)
}

// HoldSession keeps a session open: after a shell has computed, it types lines, calls opened, and reads until the peer
// ends the session, ctx is done or the request's time is over. The fact has the code and the reason of the end; an end
// before the shell computed is a failure as well.
func (p *Prober) HoldSession(ctx context.Context, req diag.Request, lines string, opened func()) diag.Fact {
	return p.measure(ctx, req, func(ctx context.Context, req diag.Request, f *diag.Fact) {
		p.Net.Hold(ctx, req, f, lines, opened)
	})
}

// Warm opens a connection for req and keeps it for the next request with the same route. The fact describes how the
// connection was opened.
func (p *Prober) Warm(ctx context.Context, req diag.Request) diag.Fact {
	return p.measure(ctx, req, p.Net.Warm)
}

// Ahead opens the connection of a request with an effect that will have req's id and go its way, and keeps it for that
// request until ctx ends or it has waited for too long.
func (p *Prober) Ahead(ctx context.Context, req diag.Request) { p.Net.Ahead(ctx, req) }

// Close closes the kept connections.
func (p *Prober) Close() { p.Net.Close() }

// measure runs one operation within the request's time. A nil operation is one that this build does not know.
func (p *Prober) measure(ctx context.Context, req diag.Request, op measure.Operation) diag.Fact {
	began := time.Now()
	f := measure.Run(ctx, req, func(ctx context.Context, _ diag.Request, f *diag.Fact) {
		agent := &p.Host.Agent
		expanded, err := hostprobe.Expand(req, agent, p.Host.Commands)
		if expanded.Target != req.Target {
			f.Target = expanded.Target
		}
		switch {
		case op == nil:
			f.Failure, f.Detail = diag.Unsupported, "no such measurement: "+string(req.Op)
		case err != nil:
			f.Failure, f.Phase, f.Detail = diag.FileMissing, "env", err.Error()
			if agent.Denied || errors.Is(err, fs.ErrPermission) {
				f.Failure, f.Detail = diag.NotPermitted, "the agent's environment may not be read by this login"
			}
		default:
			op(ctx, expanded, f)
		}
		p.readings.Explain(f)
	})
	f.Vantage = p.Vantage
	if !p.Start.IsZero() {
		f.OffsetMS = began.Sub(p.Start).Milliseconds()
	}
	return f
}

// Probe runs all requests at once and returns the facts in order. It is the vantage's method.
func (p *Prober) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	return measure.All(reqs, func(req diag.Request) diag.Fact { return p.Run(ctx, req) })
}
