//go:build !linux

package main

import (
	"context"
	"fmt"
	"io"
)

// command is for Linux alone: the machines that drills break are.
func command(_ context.Context, _ []string, _ io.Reader, _, errs io.Writer) int {
	fmt.Fprintln(errs, "gpuaas-fault: only Linux machines can be broken and reverted")
	return 1
}
