//go:build !(linux && cgo)

package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// ownStdout returns stdout: no library is loaded that could write to it.
func ownStdout() *os.File { return os.Stdout }

// sample reports that this build has no NVML, so that every GPU is unknown.
func sample(ctx context.Context, o options, w *writer, errs io.Writer) int {
	fmt.Fprintln(errs, "gpu: unknown, built without NVML")
	if o.record != "" {
		fmt.Fprintln(errs, "gpuaas-gpu-probe: nothing to record, built without NVML")
		return exitFailed
	}
	for {
		if err := w.write(unknown(report.Library{State: report.BuiltWithout, Path: o.library})); err != nil {
			fmt.Fprintln(errs, "gpuaas-gpu-probe:", err)
			return exitFailed
		}
		if o.interval == 0 {
			return exitOK
		}
		if !sleep.For(ctx, o.interval) {
			return exitOK
		}
	}
}
