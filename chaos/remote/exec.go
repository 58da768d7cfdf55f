package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

const (
	// toolWithin bounds one run of a tool; callers usually have a shorter deadline.
	toolWithin = 60 * time.Second
	// toolKept bounds how much of a tool's output is kept, in bytes.
	toolKept = 64 << 10
)

// Exec runs a tool of the machine, as root, and returns the first 64 KiB of both output streams. The exit code is
// the tool's own. An error means that the tool could not be run, or that there was no reply.
func (m *Machine) Exec(ctx context.Context, e step.Exec) (drill.Output, error) {
	if len(e.Argv) == 0 {
		return drill.Output{}, errors.New("no program")
	}
	a, err := m.exec(ctx, vantage.Script{Text: execScript, Args: e.Argv, Input: []byte(e.Stdin), Within: toolWithin,
		Keep: toolKept})
	if err != nil {
		return drill.Output{}, fmt.Errorf("%s on %s: %w", e.Argv[0], m.ID(), err)
	}
	if _, none := a.Note("none"); none {
		return drill.Output{}, fmt.Errorf("%s has no %s", m.ID(), e.Argv[0])
	}
	said, _ := a.Note("exit")
	code, err := strconv.Atoi(strings.TrimPrefix(said, "code="))
	if err != nil {
		return drill.Output{}, fmt.Errorf("%s on %s: the connection ended before it did", e.Argv[0], m.ID())
	}
	return drill.Output{Code: code, Text: string(a.Output)}, nil
}
