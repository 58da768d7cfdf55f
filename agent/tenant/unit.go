package tenant

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// SessionSlice is the slice of all terminal sessions; each session has its own unit in it.
const SessionSlice = "gpuaas-sessions.slice"

// sessionPrefix is the prefix of every session unit's name.
const sessionPrefix = "gpuaas-session-"

// stopTime bounds a stop: systemd kills what is left of a session 200 ms after it asked it to end.
const stopTime = 10 * time.Second

// SessionPrefix returns the prefix of the session units of one login.
func SessionPrefix(uid uint32) string { return fmt.Sprintf("%su%d-", sessionPrefix, uid) }

// StopSessions stops the units of one login's sessions, with all processes in them.
func StopSessions(ctx context.Context, uid uint32) error { return stop(ctx, SessionPrefix(uid)) }

// StopAllSessions stops the units that a dead agent left behind.
func StopAllSessions(ctx context.Context) error { return stop(ctx, sessionPrefix) }

func stop(ctx context.Context, prefix string) error {
	if !host.Booted() || os.Geteuid() != 0 {
		return nil // no session has a unit
	}
	// A pattern that nothing matches is not an error.
	_, err := host.Command{Limit: stopTime}.Output(ctx, "systemctl", "stop", "--", prefix+"*.service")
	if err != nil {
		return fmt.Errorf("stop the terminal sessions %s*: %w", prefix, err)
	}
	return nil
}
