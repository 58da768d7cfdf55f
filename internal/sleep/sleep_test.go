package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

func TestFor(t *testing.T) {
	for name, tc := range map[string]struct {
		d, end, want time.Duration // of the context's end, and how long For takes
		passed       bool
	}{
		"time passes": {time.Second, time.Minute, time.Second, true},
		"ctx ends":    {time.Minute, time.Second, time.Second, false},
		"nothing":     {-time.Second, time.Second, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.end)
				defer cancel()
				began := time.Now()
				if passed, took := sleep.For(ctx, tc.d), time.Since(began); passed != tc.passed || took != tc.want {
					t.Errorf("%t after %s, want %t after %s", passed, took, tc.passed, tc.want)
				}
			})
		})
	}
}
