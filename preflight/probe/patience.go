package probe

import (
	"context"
	"time"
)

type patienceKey struct{}

// WithPatience makes the short waits of requests that are measured with ctx so many times as long: those for what comes
// at once where it comes at all, such as a second server's answer, the close frame behind an error, or a program of the
// host. It is for tests: on a busy machine nothing comes at once. The time of a request stays what it is.
func WithPatience(ctx context.Context, times int) context.Context {
	return context.WithValue(ctx, patienceKey{}, times)
}

// briefly is a wait of a request that is measured with ctx.
func briefly(ctx context.Context, d time.Duration) time.Duration {
	if times, ok := ctx.Value(patienceKey{}).(int); ok {
		return d * time.Duration(times)
	}
	return d
}
