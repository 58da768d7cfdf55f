//go:build oldterminal

package agent

import (
	"context"

	"github.com/gpuaas/gpuaasctl/wire"
)

// runTerminalOpen is how agents once did it: success is reported before anything was opened, and nothing is. Drills
// run a build with this file to see that the preflight names it; no other build holds it.
func runTerminalOpen(_ context.Context, _ *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	return nil, nil, payload(task, &wire.TerminalOpenPayload{})
}
