// Package measure has what a measurement needs wherever it is made: the time it may take, the failure that an error
// means, and certificates as facts. probe/net and probe/host measure with it.
package measure

import (
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// DefaultTimeout bounds a request without its own timeout: longer than any healthy exchange, and short enough that a
// silent peer does not use up a walk's time.
const DefaultTimeout = 10 * time.Second

// TimeOf returns the request's own time, else otherwise.
func TimeOf(req diag.Request, otherwise time.Duration) time.Duration {
	if req.TimeoutMS > 0 {
		return time.Duration(req.TimeoutMS) * time.Millisecond
	}
	return otherwise
}

// All measures all requests at once and returns the facts in order.
func All(reqs []diag.Request, run func(diag.Request) diag.Fact) []diag.Fact {
	facts := make([]diag.Fact, len(reqs))
	var wg sync.WaitGroup
	for i := range reqs {
		wg.Go(func() { facts[i] = run(reqs[i]) })
	}
	wg.Wait()
	return facts
}

// Operation measures what a request asks for, and writes it to the fact.
type Operation func(context.Context, diag.Request, *diag.Fact)

// Run makes one measurement within the request's time. The fact has its time and duration, and no secret of the
// request.
func Run(ctx context.Context, req diag.Request, op Operation) diag.Fact {
	ctx, cancel := context.WithTimeout(ctx, TimeOf(req, DefaultTimeout))
	defer cancel()
	began := time.Now()
	f := diag.Fact{ID: req.ID, Request: req, At: diag.At(began)}
	op(ctx, req, &f)
	f.Detail = scrub.Clean(req, f.Detail) // also texts of a file, a command or a panic
	var own diag.Secrets                  // in whatever text of the answer
	own.Open(req.Target, req.ServerName)
	own.Clean(&f)
	f.DurationMS = diag.Measured(time.Since(began))
	return f
}
