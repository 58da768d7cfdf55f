//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/internal/sleep"
)

// cuts refuses a drill with a block that would stop the operator's own connection.
func cuts(d step.Drill, peers []netip.AddrPort) *step.Refusal {
	for _, s := range d.Steps {
		for _, c := range s.Changes {
			if c.Block == nil {
				continue
			}
			for _, p := range peers {
				if why, covered := c.Block.Covers(p); covered {
					return step.Refuse(step.RefusedOperator, "step %s would cut the operator's own connection: %s", s.ID, why)
				}
			}
		}
	}
	return nil
}

// peers returns the far ends of the connections that must not be cut: those that the drill names, and the SSH
// connection of this process. sudo drops the variable that shows it, so it is also searched for in the parent
// processes.
func peers(d step.Drill) []netip.AddrPort {
	var all []netip.AddrPort
	for _, p := range d.Peers {
		if a, err := netip.ParseAddrPort(p); err == nil {
			all = append(all, a)
		}
	}
	for pid, depth := os.Getpid(), 0; pid > 1 && depth < 32; depth++ {
		if env, err := host.Read(host.This.Path(pid, "environ"), host.Table); err == nil {
			for v := range strings.SplitSeq(env, "\x00") {
				if text, ok := strings.CutPrefix(v, "SSH_CONNECTION="); ok {
					if a, ok := peerOf(text); ok {
						return append(all, a)
					}
				}
			}
		}
		status, err := host.This.Status(pid)
		if err != nil {
			break
		}
		pid = int(status.Number("PPid"))
	}
	return all
}

// peerOf parses "client-address client-port server-address server-port".
func peerOf(connection string) (netip.AddrPort, bool) {
	f := strings.Fields(connection)
	if len(f) != 4 {
		return netip.AddrPort{}, false
	}
	addr, err := netip.ParseAddr(f[0])
	port, err2 := strconv.ParseUint(f[1], 10, 16)
	return netip.AddrPortFrom(addr, uint16(port)), err == nil && err2 == nil
}

// missing refuses a drill if the machine lacks a program that an undo needs.
func missing(d step.Drill) *step.Refusal {
	need := map[string]bool{"systemctl": true, "systemd-run": true}
	for _, s := range d.Steps {
		for _, c := range s.Changes {
			if c.Block != nil {
				need["nft"] = true
			}
			if c.Run != nil {
				need[c.Run.State.Argv[0]], need[c.Run.Do.Argv[0]], need[c.Run.Undo.Argv[0]] = true, true, true
			}
		}
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(need)) {
		if _, err := os.Stat(find(name)); err != nil {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		return step.Refuse(step.RefusedTools, "this machine has no %s", strings.Join(gone, ", "))
	}
	return nil
}

// lockWait bounds the wait for a lock: its holder may be stopping a unit.
const lockWait = makeBudget + 5*time.Second

// lock locks that file, and writes the process id to it. The kernel releases the lock when the process ends, in
// whatever way. A stopped holder would never end, so it is killed.
func lock(ctx context.Context, path string, wait time.Duration) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for began := time.Now(); ; {
		f, err := durable.TryLock(path)
		if err != nil {
			return nil, err
		}
		if f != nil {
			// Overwritten, never truncated: there may be no space for a longer text later.
			if _, err := f.WriteAt(fmt.Appendf(nil, "%-16d\n", os.Getpid()), 0); err != nil && !errors.Is(err, unix.ENOSPC) {
				return nil, errors.Join(err, f.Close())
			}
			return func() { f.Close() }, nil
		}
		if time.Since(began) > time.Second {
			endHolder(path, false)
		}
		if !sleep.For(ctx, 2*time.Millisecond) {
			return nil, step.Refuse(step.RefusedBusy, "process %s of this drill is at work", holder(path))
		}
	}
}

func holder(path string) string {
	b, _ := os.ReadFile(path) // an unreadable file names no process
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// endHolder kills the holder of a lock if it is our program and stopped, or, if anyway is set, in any case.
func endHolder(path string, anyway bool) {
	pid, err := strconv.Atoi(holder(path))
	if err != nil || pid <= 1 {
		return
	}
	exe, err := os.Readlink(host.This.Path(pid, "exe"))
	if err != nil || !strings.HasPrefix(filepath.Base(exe), step.Program) {
		return
	}
	if s, err := host.This.Stat(pid); err == nil && (anyway || s.Stopped()) {
		unix.Kill(pid, unix.SIGKILL)
	}
}
