package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Local is the operator's own machine: independent probes run there, as the operator, and it is never broken.
func Local() drill.Machine { return here{} }

type here struct{}

func (here) Fault(context.Context, []byte, ...string) (step.Reply, error) {
	return step.Reply{}, errors.New("nothing is broken on the operator's own machine")
}

// hereGrace is how long the output of an exited program is still read: a busy machine may be late, and a child
// that still runs may hold the pipe open.
const hereGrace = 5 * time.Second

func (here) Reconnect()                         {}
func (here) RemoveHelper(context.Context) error { return nil }

// Exec implements drill.Machine.
func (here) Exec(ctx context.Context, e step.Exec) (drill.Output, error) {
	if len(e.Argv) == 0 {
		return drill.Output{}, errors.New("no program")
	}
	ctx, cancel := context.WithTimeout(ctx, toolWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Argv[0], e.Argv[1:]...)
	cmd.Env = hereEnv()
	cmd.Stdin = strings.NewReader(e.Stdin)
	cmd.WaitDelay = hereGrace
	out := &bounded.Head{Most: toolKept}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return drill.Output{}, fmt.Errorf("%s: %w", e.Argv[0], ctx.Err())
	case errors.As(err, &exit) && exit.Exited(), err == nil, errors.Is(err, exec.ErrWaitDelay):
		return drill.Output{Code: cmd.ProcessState.ExitCode(), Text: out.String()}, nil
	}
	return drill.Output{}, err
}

// hereEnv lists the only environment variables that a drill's program gets; the operator's others include tokens
// and agents' sockets.
func hereEnv() []string { return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} }
