// Package probetest is for the tests of the probe's packages: servers that behave in a certain way, certificates,
// processes and fake programs of a host.
package probetest

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/tools/testkit/leaktest"
)

// OutOfTime runs a measurement that must time out in a certain phase. A busy machine may not reach the phase in a
// second, and then gets more time.
func OutOfTime(measure func(ms int64) diag.Fact, there func(f diag.Fact) bool) diag.Fact {
	for ms := int64(1000); ; ms *= 4 {
		if f := measure(ms); there(f) || ms > 30_000 {
			return f
		}
	}
}

// Retry repeats a measurement that ended early because the machine is busy, up to five times.
func Retry(measure func() diag.Fact, whole func(f diag.Fact) bool) (f diag.Fact) {
	for range 5 {
		if f = measure(); whole(f) {
			break
		}
	}
	return f
}

// Patient returns a context whose short waits are longer, for busy machines.
func Patient(t *testing.T) context.Context {
	t.Helper()
	return measure.WithPatience(t.Context(), 20)
}

// NoLeaks fails the test if a goroutine outlives everything that the test started; call it first.
func NoLeaks(t *testing.T) {
	t.Helper()
	now := goleak.IgnoreCurrent()
	t.Cleanup(func() { leaktest.None(t, now) })
}

// NeedsRoot skips the test without root.
func NeedsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
}

// WantFailure is an error of the test if f has another failure.
func WantFailure(t *testing.T, f diag.Fact, word diag.Failure) {
	t.Helper()
	if f.Failure != word {
		t.Errorf("failure = %q, want %q (phase %q, errno %q: %s)", f.Failure, word, f.Phase, f.Errno, f.Detail)
	}
}

// Prober is one half of probe.Prober.
type Prober interface {
	Operation(op diag.Op) measure.Operation
}

// Run measures as probe.Prober does, without what only this machine can add to a failure.
func Run(ctx context.Context, p Prober, req diag.Request) diag.Fact {
	return measure.Run(ctx, req, p.Operation(req.Op))
}

// Probe runs all requests at once and returns the facts in order.
func Probe(ctx context.Context, p Prober, reqs []diag.Request) []diag.Fact {
	return measure.All(reqs, func(req diag.Request) diag.Fact { return Run(ctx, p, req) })
}
