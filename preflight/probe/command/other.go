//go:build !linux

package command

import (
	"context"
	"errors"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// Run is Linux only: elsewhere nothing ends what a program leaves behind.
func (p *Prober) Run(_ context.Context, _ diag.Request, f *diag.Fact) {
	measure.Fail(f, "command", diag.NotPermitted, errors.New("commands are run on Linux only"))
}
