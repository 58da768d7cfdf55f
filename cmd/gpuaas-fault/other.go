//go:build !linux

package main

import (
	"context"
	"fmt"
	"io"
)

// command works on Linux only, like the machines that drills break.
func command(_ context.Context, _ []string, _ io.Reader, _, errs io.Writer) int {
	fmt.Fprintln(errs, "gpuaas-fault: only Linux machines can be broken and reverted")
	return 1
}
