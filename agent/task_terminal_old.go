//go:build oldterminal

package agent

import (
	"context"

	"github.com/gpuaas/gpuaasctl/agent/wire"
)

// runTerminalOpen is the behavior of old agents: it reports success and opens nothing. Drills run a build with
// this file to check that the preflight detects it; no other build contains it.
func runTerminalOpen(_ context.Context, _ *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	return nil, nil, payload(task, &wire.TerminalOpenPayload{})
}
