package measure

import (
	"context"
	"time"
)

type patienceKey struct{}

// WithPatience multiplies the short waits of requests that are measured with ctx: those for a second server's answer,
// the close frame after an error, or a program of the host, which normally arrive at once. It is for tests on busy
// machines. It does not change the timeout of a request.
func WithPatience(ctx context.Context, times int) context.Context {
	return context.WithValue(ctx, patienceKey{}, times)
}

// Briefly returns the length of a short wait of a request that is measured with ctx.
func Briefly(ctx context.Context, d time.Duration) time.Duration {
	if times, ok := ctx.Value(patienceKey{}).(int); ok {
		return d * time.Duration(times)
	}
	return d
}
