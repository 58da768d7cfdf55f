// Package sleep waits as time.Sleep does, and stops when a context ends. It has no other purpose. Its callers are loops
// that poll or retry.
package sleep

import (
	"context"
	"time"
)

// For waits for d, and reports whether it has passed; false means that ctx ended first.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
