//go:build !linux

package probe

import (
	"context"

	"github.com/gpuaas/gpuaasctl/diag"
)

// namespace is Linux only.
type namespace struct{}

func openNamespace(int, Config) (*namespace, string) { return nil, ViewNoProcess }

func (n *namespace) answer(_ context.Context, _ diag.Request, plain func() diag.Fact) diag.Fact {
	return plain()
}

func (n *namespace) close() error { return nil }
