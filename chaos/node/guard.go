//go:build linux

package node

import (
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// cuts refuses a drill with a block that stops the operator's own connection.
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

// peers are the far ends of the connections that may not be cut: those that the drill names, and the SSH connection that
// this process came over. sudo drops the variable that tells it, so its ancestors are asked as well.
func peers(d step.Drill) []netip.AddrPort {
	var all []netip.AddrPort
	for _, p := range d.Peers {
		if a, err := netip.ParseAddrPort(p); err == nil {
			all = append(all, a)
		}
	}
	for pid, depth := os.Getpid(), 0; pid > 1 && depth < 32; depth++ {
		dir := "/proc/" + strconv.Itoa(pid)
		if env, err := os.ReadFile(dir + "/environ"); err == nil {
			for v := range strings.SplitSeq(string(env), "\x00") {
				if text, ok := strings.CutPrefix(v, "SSH_CONNECTION="); ok {
					if a, ok := peerOf(text); ok {
						return append(all, a)
					}
				}
			}
		}
		status, err := os.ReadFile(dir + "/status")
		if err != nil {
			break
		}
		_, after, _ := strings.Cut(string(status), "\nPPid:")
		line, _, _ := strings.Cut(after, "\n")
		if pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			break
		}
	}
	return all
}

// peerOf reads "client-address client-port server-address server-port".
func peerOf(connection string) (netip.AddrPort, bool) {
	f := strings.Fields(connection)
	if len(f) != 4 {
		return netip.AddrPort{}, false
	}
	addr, err := netip.ParseAddr(f[0])
	port, err2 := strconv.ParseUint(f[1], 10, 16)
	return netip.AddrPortFrom(addr, uint16(port)), err == nil && err2 == nil
}

// missing refuses a drill for which the machine lacks a program that an undo needs.
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
