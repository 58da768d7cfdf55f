package probe

import (
	"context"

	"github.com/gpuaas/gpuaasctl/diag"
)

// fail writes what stopped a host measurement into f: the word, the phase, and of err the errno and its own words.
func fail(f *diag.Fact, phase string, word diag.Failure, err error) {
	f.Failure, f.Phase = word, phase
	if err == nil {
		return
	}
	f.Detail = joinDetail(f.Detail, err.Error())
	f.Errno = errnoName(err)
}

// interrupted reports, and writes into f, that ctx ended before phase was done.
func interrupted(ctx context.Context, f *diag.Fact, phase string) bool {
	word, over := ended(ctx)
	if over {
		f.Failure, f.Phase = word, phase
	}
	return over
}

func joinDetail(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
