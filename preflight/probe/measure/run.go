// Package measure has what a measurement needs wherever it is made: the time it may take, the failure that an error
// means, and certificates as facts. probe/net and probe/host measure with it.
package measure

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// DefaultTimeout bounds a request without its own timeout: longer than any healthy exchange, and short enough that a
// silent peer does not use up a walk's time.
const DefaultTimeout = 10 * time.Second

// Operation measures what a request asks for, and writes it to the fact.
type Operation func(context.Context, diag.Request, *diag.Fact)

// Run makes one measurement within the request's time. The fact has its time and duration, and no secret of the
// request.
func Run(ctx context.Context, req diag.Request, op Operation) diag.Fact {
	timeout := DefaultTimeout
	if req.TimeoutMS > 0 {
		timeout = time.Duration(req.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
