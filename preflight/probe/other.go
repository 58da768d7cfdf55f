//go:build !linux

package probe

import (
	"context"

	"github.com/gpuaas/gpuaasctl/diag"
)

// namespace is Linux only.
type namespace struct{ net bool }

func openNamespaces(int, Config) (inside, mounts *namespace, view string) {
	return nil, nil, ViewNoProcess
}

func machinesNetwork(int, Config) *namespace { return nil }

func (n *namespace) answer(_ context.Context, _ diag.Request, plain func() diag.Fact) diag.Fact {
	return plain()
}

func (n *namespace) close() error { return nil }
