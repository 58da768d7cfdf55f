// Package host reads the machine on which it runs: disks, files, credentials, units and their processes, programs,
// logs, the agent's environment and record, GPUs, and what the machine has run out of or denies. It asks no other
// machine. probe.Prober runs it at a vantage.
//
// More than 25 files: each operation has its own, and what only Linux has is apart.
package host

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// Prober reads the machine of this process. The zero value knows no agent.
type Prober struct {
	Agent AgentView // node side only

	// JudgeGPUs lets a policy judge raw events about a node's GPUs, as of now by the node's clock. Only the operator's
	// side sets it: a node judges nothing.
	JudgeGPUs func(ctx context.Context, policy string, events []json.RawMessage, now time.Time) (diag.GPUJudged, error)

	// Commands allows Request.VersionCommand: the requests come from an operator's login, not from the platform as
	// tasks.
	Commands bool

	// KernelLog is the kernel log to read for errors of GPUs; "": the one that the agent's environment names, else
	// /dev/kmsg.
	KernelLog string

	mirror string   // folder of the record's copy in memory, for tests
	gpus   gpuPaths // paths of the kernel's files about GPUs, for tests
	units  units    // batches queries to systemd
	root   string   // folder in place of /, for tests
}

// Operation returns the measurement of an operation; nil if it is none of the machine's.
func (p *Prober) Operation(op diag.Op) measure.Operation {
	switch op {
	case diag.OpDisk:
		return p.disk
	case diag.OpFile:
		return p.file
	case diag.OpCert:
		return p.cert
	case diag.OpUnit:
		return p.unit
	case diag.OpBinary:
		return p.binary
	case diag.OpUser:
		return p.user
	case diag.OpClock:
		return p.clock
	case diag.OpEnv:
		return p.env
	case diag.OpRecord:
		return p.record
	case diag.OpJournal:
		return p.journal
	case diag.OpGPU:
		return p.gpu
	case diag.OpMachine:
		return p.machine
	case diag.OpMounts:
		return p.mounts
	case diag.OpKernel:
		return p.kernel
	case diag.OpGPUJudge:
		return p.gpuJudge
	case diag.OpProcess:
		return p.process
	case diag.OpContainer:
		return p.container
	}
	return nil
}

// clock reads this host's clocks. It reads Now first: a vantage compares it with its own.
func (p *Prober) clock(_ context.Context, _ diag.Request, f *diag.Fact) {
	f.Clock = &diag.ClockFacts{Now: diag.At(time.Now())}
	kernelClock(f.Clock)
}
