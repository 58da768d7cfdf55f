// Package probe measures: it turns a request into a fact. The same code runs on the operator's machine and on a node,
// where `gpuaas-agent probe` serves it over one SSH channel.
//
// It gives no verdicts and writes no logs: everything that it measures is in the fact. Callers are the vantages, the
// agent (for probe tasks) and the tests.
//
// More than 25 files: each operation has its own, and what only Linux has is apart.
package probe

import (
	"context"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// DefaultTimeout bounds a request without its own timeout: longer than any healthy exchange, and short enough that a
// silent peer does not use up a walk's time.
const DefaultTimeout = 10 * time.Second

// Prober runs requests at one vantage. The zero value measures from this process, as "operator".
type Prober struct {
	Vantage string    // written to every fact
	Start   time.Time // base of the offsets; zero: the first request

	// Dial replaces the network dialer, for connections through a jump host and for tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Lookup finds fields in answers; if nil, only paths of names and list indices joined by dots are supported.
	Lookup Lookup

	// AskServer queries one name server for a fully qualified name, in more detail than the host's own look-up. If nil,
	// no server is queried separately. An error is why there is no answer.
	AskServer func(ctx context.Context, server, name string) (diag.DNSAnswer, error)

	// JudgeGPUs lets a policy judge raw events about a node's GPUs, as of now by the node's clock. Only the operator's
	// side sets it: a node judges nothing.
	JudgeGPUs func(ctx context.Context, policy string, events []json.RawMessage, now time.Time) (diag.GPUJudged, error)

	Agent AgentView // node side only

	// Commands allows Request.VersionCommand: the requests come from an operator's login, not from the platform as
	// tasks.
	Commands bool

	names  nameFiles // paths of name service files, for tests
	mirror string    // folder of the record's copy in memory, for tests
	gpus   gpuPaths  // paths of the kernel's files about GPUs, for tests
	pool   pool      // connections kept between requests of one prober
	units  units     // batches queries to systemd

	own     own        // shortages and denials of this machine
	dialing dialing    // connections that are being made
	asked   askedNames // names for which every name server was queried
}

// Run makes one measurement. It returns when the measurement is done, or ctx or the request's own time ends, always
// with a fact: a failure is also a fact.
func (p *Prober) Run(ctx context.Context, req diag.Request) diag.Fact {
	return p.measure(ctx, req, measurement(req.Op))
}

// measure runs one measurement within the request's time. A nil function means an operation that this build does not
// know.
func (p *Prober) measure(ctx context.Context, req diag.Request,
	measure func(*Prober, context.Context, diag.Request, *diag.Fact)) diag.Fact {
	timeout := DefaultTimeout
	if req.TimeoutMS > 0 {
		timeout = time.Duration(req.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	f := diag.Fact{ID: req.ID, Vantage: p.Vantage, Request: req, At: diag.At(began)}
	if !p.Start.IsZero() {
		f.OffsetMS = began.Sub(p.Start).Milliseconds()
	}
	expanded, err := Expand(req, p.Agent.Env)
	if expanded.Target != req.Target {
		f.Target = expanded.Target
	}
	switch {
	case measure == nil:
		f.Failure, f.Detail = diag.Unsupported, "no such measurement: "+string(req.Op)
	case err != nil:
		f.Failure, f.Phase, f.Detail = diag.FileMissing, phaseEnv, err.Error()
		if p.Agent.Denied {
			f.Failure, f.Detail = diag.NotPermitted, "the agent's environment may not be read by this login"
		}
	default:
		measure(p, ctx, expanded, &f)
	}
	p.own.explain(&f)
	f.Detail = clean(req, f.Detail) // also texts of a file, a command or a panic
	var own diag.Secrets            // in whatever text of the answer
	own.Open(req.Target, req.ServerName)
	own.Clean(&f)
	f.DurationMS = diag.Measured(time.Since(began))
	return f
}

// Probe runs all requests at once and returns the facts in order. It is the vantage's method.
func (p *Prober) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	facts := make([]diag.Fact, len(reqs))
	var wg sync.WaitGroup
	for i := range reqs {
		wg.Go(func() { facts[i] = p.Run(ctx, reqs[i]) })
	}
	wg.Wait()
	return facts
}

// measurements are the functions of the operations. (A map would be filled at every start.)
var measurements = [...]struct {
	op diag.Op
	by func(*Prober, context.Context, diag.Request, *diag.Fact)
}{
	{diag.OpDNS, (*Prober).dns},
	{diag.OpTCP, (*Prober).tcp},
	{diag.OpTLS, (*Prober).tls},
	{diag.OpHTTP, (*Prober).http},
	{diag.OpWS, (*Prober).ws},
	{diag.OpSession, (*Prober).session},
	{diag.OpDisk, (*Prober).disk},
	{diag.OpFile, (*Prober).file},
	{diag.OpCert, (*Prober).cert},
	{diag.OpUnit, (*Prober).unit},
	{diag.OpBinary, (*Prober).binary},
	{diag.OpUser, (*Prober).user},
	{diag.OpClock, (*Prober).clock},
	{diag.OpEnv, (*Prober).env},
	{diag.OpRecord, (*Prober).record},
	{diag.OpJournal, (*Prober).journal},
	{diag.OpGPU, (*Prober).gpu},
	{diag.OpGPUJudge, (*Prober).gpuJudge},
}

// measurement returns the function for an operation; nil if this build does not know it.
func measurement(op diag.Op) func(*Prober, context.Context, diag.Request, *diag.Fact) {
	for i := range measurements {
		if measurements[i].op == op {
			return measurements[i].by
		}
	}
	return nil
}

// clock reads this host's clocks. It reads Now first: a vantage compares it with its own.
func (p *Prober) clock(_ context.Context, _ diag.Request, f *diag.Fact) {
	f.Clock = &diag.ClockFacts{Now: diag.At(time.Now())}
	kernelClock(f.Clock)
}
