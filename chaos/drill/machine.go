package drill

import (
	"context"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Machine is a machine that a drill breaks, or looks from. Each call has a deadline of its own, and may be made while
// another one is under way.
type Machine interface {
	// Fault runs one command of gpuaas-fault there, as root, and gives its answer. The error means that no answer could be
	// had, so it is unknown whether it was carried out.
	Fault(ctx context.Context, in []byte, args ...string) (step.Reply, error)
	// Exec runs one of the machine's tools there, as root. The error means that it could not be run at all.
	Exec(ctx context.Context, e step.Exec) (Output, error)
	// Reconnect gives up the connection; the next call makes a new one.
	Reconnect()
	// Leave removes what was put on the machine to make these calls.
	Leave(ctx context.Context) error
}

// Output is what a tool printed, on both streams, and its exit code.
type Output struct {
	Code int
	Text string
}
