package drill

import (
	"context"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Machine is a machine that a drill breaks or probes from. Each call has its own deadline; calls may be
// concurrent.
type Machine interface {
	// Fault runs one command of gpuaas-fault there, as root, and returns its reply. An error means that there is no
	// reply, so it is unknown whether the command was executed.
	Fault(ctx context.Context, in []byte, args ...string) (step.Reply, error)
	// Exec runs one of the machine's tools there, as root. An error means that it could not be run.
	Exec(ctx context.Context, e step.Exec) (Output, error)
	// Reconnect gives up the connection; the next call opens a new one.
	Reconnect()
	// RemoveHelper removes the program that was put on the machine for these calls.
	RemoveHelper(ctx context.Context) error
}

// Output is what a tool printed, on both streams, and its exit code.
type Output struct {
	Code int
	Text string
}
