package agent

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/wire"
)

// unitStopTime is longer than systemd's own default before it kills what does not stop.
const unitStopTime = 100 * time.Second

// runCleanup ends a released allocation's workload, and completes only when systemd says that it has ended.
func runCleanup(ctx context.Context, _ *runtime, task *wire.Task) (any, func(context.Context) string, error) {
	var p wire.CleanupPayload
	if err := payload(task, &p); err != nil {
		return nil, nil, err
	}
	if p.Unit == "" {
		return nil, nil, nil
	}
	if strings.HasPrefix(p.Unit, "-") {
		return nil, nil, &taskError{code: CodeTaskInvalid, err: fmt.Errorf("%q is not a unit", p.Unit)}
	}
	ctx, cancel := context.WithTimeout(ctx, unitStopTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", "stop", "--", p.Unit)
	cmd.WaitDelay = 200 * time.Millisecond
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("stop %s: %w: %s", p.Unit, err, strings.TrimSpace(string(out)))
	}
	state, err := activeState(ctx, p.Unit)
	if err != nil {
		return nil, nil, err
	}
	if state == "active" || state == "deactivating" {
		return nil, nil, fmt.Errorf("%s is %s after its stop", p.Unit, state)
	}
	return wire.StatusProbeResult{State: state}, nil, nil
}
