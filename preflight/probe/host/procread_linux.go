package host

import (
	"bufio"
	"cmp"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

const (
	// maxProcesses and tallyTime bound a walk through /proc.
	maxProcesses = 32 << 10
	tallyTime    = 400 * time.Millisecond
)

// numbers returns the numbers in a file, without other words such as "max".
func numbers(path string) (out []int64) {
	text, _ := host.Read(path, host.Small)
	for word := range strings.FieldsSeq(text) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// field returns the number after a name; 0 if it is missing.
func field(text, name string) int64 {
	words := strings.Fields(text)
	if i := slices.Index(words, name); i >= 0 && i+1 < len(words) {
		n, _ := strconv.ParseInt(words[i+1], 10, 64)
		return n
	}
	return 0
}

// statusNumber returns a number of /proc/PID/status.
func statusNumber(pid int, name string) int64 {
	s, _ := host.This.Status(pid)
	return s.Number(name)
}

// names lists at most n entries of a folder.
func names(dir string, n int) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	list, _ := d.Readdirnames(n)
	return list
}

// everyProcess calls f for the processes of this machine, until the time is up.
func everyProcess(f func(pid int)) {
	until := time.Now().Add(tallyTime)
	pids, _ := host.This.PIDs(maxProcesses)
	for _, pid := range pids {
		if time.Now().Before(until) {
			f(pid)
		}
	}
}

// total sums up what the processes selected by meant hold.
func total(meant func(pid int) bool, held func(pid int) int64) (sum int64) {
	everyProcess(func(pid int) {
		if meant(pid) {
			sum += held(pid)
		}
	})
	return sum
}

// tally returns which processes hold most, by the kernel's name for them; meant nil: all processes.
func tally(meant func(pid int) bool, held func(pid int) int64) []diag.Holder {
	by := map[string]int64{}
	everyProcess(func(pid int) {
		if meant == nil || meant(pid) {
			by[commOf(pid)] += held(pid)
		}
	})
	return most(by)
}

// socketHolders returns which processes hold the sockets, given as inode -> count; inode 0 counts those without a
// process.
func socketHolders(inodes map[string]int64) []diag.Holder {
	by := map[string]int64{"": inodes["0"]}
	delete(inodes, "0")
	everyProcess(func(pid int) {
		if len(inodes) == 0 {
			return
		}
		for _, inode := range socketsOf(pid) {
			if n := inodes[inode]; n > 0 {
				by[commOf(pid)] += n
				delete(inodes, inode) // a socket that processes share counts once
			}
		}
	})
	return most(by)
}

// listenerAt returns the process that listens at a loopback address; nil if it is not found, or hidden from this login.
// Of processes that share the socket it is one that systemd has started, and not systemd itself.
func listenerAt(remote string) (found *diag.Listener) {
	at, err := netip.ParseAddrPort(remote)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil
	}
	byInode := map[string]string{}
	for _, table := range [...]string{"tcp", "tcp6"} {
		text, _ := host.Read(host.This.Path(host.Thread, "net", table), host.Table)
		parseListeners(text, byInode)
	}
	maps.DeleteFunc(byInode, func(_, addr string) bool {
		a, err := netip.ParseAddrPort(addr)
		return err != nil || a.Port() != at.Port() ||
			(!a.Addr().IsUnspecified() && a.Addr().Unmap() != at.Addr().Unmap())
	})
	everyProcess(func(pid int) {
		if len(byInode) == 0 || (found != nil && found.PID != 1) {
			return
		}
		for _, inode := range socketsOf(pid) {
			if byInode[inode] != "" {
				found = &diag.Listener{Name: commOf(pid), PID: pid, Unit: unitOf(pid)}
				return
			}
		}
	})
	return found
}

// unitOf returns the systemd unit of a process, by its control group; "" if it has none.
func unitOf(pid int) string {
	groups, _ := host.This.Cgroups(pid)
	for _, g := range groups {
		if unit := unitIn(g.Path); unit != "" && (g.Unified || slices.Contains(g.Controllers, "name=systemd")) {
			return unit
		}
	}
	return ""
}

// unitIn returns the system's unit of a control group. Units of a user's own manager, who gives them any name, count as
// that manager's unit.
func unitIn(group string) string {
	for name := range strings.SplitSeq(group, "/") {
		if strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope") {
			return printable(name)
		}
	}
	return ""
}

func most(by map[string]int64) []diag.Holder {
	var all []diag.Holder
	for name, held := range by {
		if held > 0 {
			all = append(all, diag.Holder{Name: name, Held: held})
		}
	}
	// package sort: each generic sort of a struct is 14 KB of the agent's program
	sort.Slice(all, func(i, j int) bool {
		return cmp.Or(cmp.Compare(all[j].Held, all[i].Held), cmp.Compare(all[i].Name, all[j].Name)) < 0
	})
	return all[:min(len(all), diag.MaxHolders)]
}

// commOf returns a process's name: 15 bytes that the process chooses itself, so only printable ones are kept.
func commOf(pid int) string {
	text, _ := host.Read(host.This.Path(pid, "comm"), host.Small)
	return cmp.Or(scrub.Text(printable(text)), "?")
}

// printable removes what is not printable ASCII.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
}

// kernelSocket is a row of /proc/net/tcp or udp.
type kernelSocket struct {
	local, remote netip.AddrPort // remote has port 0 if the socket is not connected
	inode         string
}

// kernelSockets parses a table of the kernel's sockets.
func kernelSockets(path string) (all []kernelSocket) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	rows := bufio.NewScanner(io.LimitReader(f, host.Table))
	for rows.Scan() {
		fields := strings.Fields(rows.Text())
		if len(fields) < 10 {
			continue
		}
		local, okLocal := parseSocket(fields[1])
		remote, okRemote := parseSocket(fields[2])
		if okLocal && okRemote {
			all = append(all, kernelSocket{local: plain(local), remote: plain(remote), inode: fields[9]})
		}
	}
	return all
}

// plain parses an endpoint, unmapping an IPv4 address.
func plain(s string) netip.AddrPort {
	a, _ := netip.ParseAddrPort(s) // it was just formatted from one
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// CgroupsOf lists the control groups of this process in a controller's hierarchy, its own first.
func CgroupsOf(controller string) (dirs []string) {
	groups, _ := host.This.Cgroups(os.Getpid())
	mounts, err := host.This.Mounts(host.Thread)
	if err != nil {
		return nil
	}
	for _, g := range groups {
		dir := ""
		switch {
		case slices.Contains(g.Controllers, controller):
			dir = cgroupFolder(mounts, "cgroup", controller, g.Path)
		case g.Unified:
			dir = cgroupFolder(mounts, "cgroup2", "", g.Path)
		}
		for dir != "" {
			dirs = append(dirs, dir)
			up := filepath.Dir(dir)
			if _, err := os.Stat(filepath.Join(up, "cgroup.procs")); err != nil {
				break
			}
			dir = up
		}
	}
	return dirs
}

// cgroupMembers reports whether a process is in a control group or below it.
func cgroupMembers(dir string) func(pid int) bool {
	in := map[string]bool{}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || len(in) > maxProcesses {
			return nil
		}
		text, _ := host.Read(filepath.Join(path, "cgroup.procs"), host.Small)
		for pid := range strings.FieldsSeq(text) {
			in[pid] = true
		}
		return nil
	})
	return func(pid int) bool { return in[strconv.Itoa(pid)] }
}
