package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// mostArguments bounds what is read of a process's arguments.
const mostArguments = 64 << 10

// process counts the processes of a name. Failures: unit_inactive if there is none.
func (p *Prober) process(ctx context.Context, req diag.Request, f *diag.Fact) {
	pids, err := host.This.PIDs(-1)
	if err != nil {
		measure.Fail(f, "proc", measure.FileWord(err), err)
		return
	}
	found := &diag.ProcessFacts{}
	for _, pid := range pids {
		st, err := host.This.Stat(pid)
		if pid == os.Getpid() || err != nil || st.Ended() || !isProcess(pid, st, req) {
			continue
		}
		found.Count++
		if len(found.PIDs) < diag.MaxProcesses {
			found.PIDs, found.States = append(found.PIDs, pid), found.States+st.State
		}
		if age, err := host.This.Age(st); err == nil {
			s := int64(age.Seconds())
			if found.OldestS == nil || s > *found.OldestS {
				found.OldestS = &s
			}
		}
	}
	if measure.Interrupted(ctx, f, "proc") {
		return
	}
	if f.Process = found; found.Count == 0 {
		measure.Fail(f, "proc", diag.UnitInactive, errors.New("no process has this name"))
	}
}

// isProcess reports whether a process has the name: as it calls itself (the kernel keeps 15 bytes), or as its program
// is called; and all texts of match among its arguments.
func isProcess(pid int, st host.Stat, req diag.Request) bool {
	text, _ := host.Read(host.This.Path(pid, "cmdline"), mostArguments) // a kernel thread has none
	args := strings.ReplaceAll(string(bytes.TrimRight([]byte(text), "\x00")), "\x00", " ")
	program, _, _ := strings.Cut(text, "\x00")
	if req.Target != st.Name && req.Target != program && req.Target != filepath.Base(program) {
		return false
	}
	for _, part := range req.Match {
		if !strings.Contains(args, part) {
			return false
		}
	}
	return true
}
