package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// readShortage reads the exhausted limit: its value, its use and the holders. errno tells the file limits apart, udp
// the kinds of local ports, and remote is the address that was dialled.
func readShortage(r diag.Resource, errno string, udp bool, remote string) diag.ShortageFacts {
	s := diag.ShortageFacts{Resource: r}
	switch r {
	case diag.OpenFiles:
		openFiles(&s, errno)
	case diag.LocalPorts:
		localPorts(&s, udp, remote)
	case diag.Processes:
		processes(&s)
	case diag.Memory:
		memory(&s)
	case diag.NetworkBuffers:
		networkBuffers(&s)
	}
	return s
}

// set records a limit and its use.
func set(s *diag.ShortageFacts, scope diag.Scope, setting string, limit, used int64) {
	s.Scope, s.Setting, s.Limit, s.Used = scope, setting, &limit, &used
}

// openFiles: EMFILE means that this process's own limit is reached, so that no file can be opened to read it; ENFILE is
// the machine's limit.
func openFiles(s *diag.ShortageFacts, errno string) {
	if errno == "EMFILE" {
		var l unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil {
			set(s, diag.ScopeProcess, "ulimit -n", clampInt(l.Cur), clampInt(l.Cur))
			s.Holders = []diag.Holder{{Name: ownName(), Held: clampInt(l.Cur)}}
		}
		return
	}
	if n := numbers("/proc/sys/fs/file-nr"); len(n) == 3 {
		set(s, diag.ScopeMachine, "fs.file-max", n[2], n[0]-n[1])
	}
	s.Holders = tally(nil, openFilesOf)
}

// openFilesOf counts a process's open files: since Linux 6.2 by the kernel's number, before that at most maxFDs.
func openFilesOf(pid int) int64 {
	path := fmt.Sprintf("/proc/%d/fd", pid)
	if fi, err := os.Stat(path); err == nil && fi.Size() > 0 {
		return fi.Size()
	}
	return int64(len(names(path, maxFDs)))
}

// localPorts counts the ports of the range from which connect may choose that are in use towards remote, or by
// listeners.
func localPorts(s *diag.ShortageFacts, udp bool, remote string) {
	r := numbers("/proc/sys/net/ipv4/ip_local_port_range")
	if len(r) != 2 || r[1] < r[0] {
		return
	}
	limit := r[1] - r[0] + 1 - reservedPorts(r[0], r[1])
	files := []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"}
	if udp {
		files = []string{"/proc/self/net/udp", "/proc/self/net/udp6"}
	}
	used := map[uint16]bool{}
	inodes := map[string]int64{}
	for _, file := range files {
		for _, k := range kernelSockets(file) {
			port := k.local.Port()
			taken := udp || k.remote.Port() == 0 || k.remote.String() == remote
			if int64(port) >= r[0] && int64(port) <= r[1] && taken && !used[port] {
				used[port] = true
				inodes[k.inode]++
			}
		}
	}
	set(s, diag.ScopeNetwork, "net.ipv4.ip_local_port_range", limit, int64(len(used)))
	s.Holders = socketHolders(inodes)
}

// reservedPorts counts the ports of the range that only a program which names them gets.
func reservedPorts(low, high int64) (n int64) {
	text, _ := host.Read("/proc/sys/net/ipv4/ip_local_reserved_ports", host.Small)
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, span := strings.Cut(part, "-")
		if !span {
			to = from
		}
		a, errA := strconv.ParseInt(from, 10, 64)
		b, errB := strconv.ParseInt(to, 10, 64)
		if errA == nil && errB == nil {
			n += max(0, min(b, high)-max(a, low)+1)
		}
	}
	return n
}

// processes: a new process is refused by a limit of a control group, of the user, or of the machine. The first one that
// is reached is reported.
func processes(s *diag.ShortageFacts) {
	for _, dir := range CgroupsOf("pids") {
		limit, used := numbers(filepath.Join(dir, "pids.max")), numbers(filepath.Join(dir, "pids.current"))
		if len(limit) == 1 && len(used) == 1 && used[0] >= limit[0] {
			set(s, diag.ScopeCgroup, "pids.max of "+dir, limit[0], used[0])
			s.Holders = tally(cgroupMembers(dir), threadsOf)
			return
		}
	}
	var l unix.Rlimit
	uid := os.Getuid()
	mine := func(pid int) bool {
		var st unix.Stat_t
		return unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == uid
	}
	if unix.Getrlimit(unix.RLIMIT_NPROC, &l) == nil && l.Cur != unix.RLIM_INFINITY {
		if n := total(mine, threadsOf); n >= clampInt(l.Cur) {
			set(s, diag.ScopeUser, fmt.Sprintf("ulimit -u of uid %d", uid), clampInt(l.Cur), n)
			s.Holders = tally(mine, threadsOf)
			return
		}
	}
	load, _ := host.Read("/proc/loadavg", host.Small) // "0.12 0.34 0.56 1/345 6789": of 345 threads one runs
	_, load, _ = strings.Cut(load, "/")
	load, _, _ = strings.Cut(load, " ")
	used, _ := strconv.ParseInt(load, 10, 64)
	for _, limit := range [...]string{"kernel.threads-max", "kernel.pid_max"} {
		n := numbers("/proc/sys/" + strings.ReplaceAll(limit, ".", "/"))
		if len(n) == 1 && used >= n[0]-n[0]/100 {
			set(s, diag.ScopeMachine, limit, n[0], used)
			s.Holders = tally(nil, threadsOf)
			return
		}
	}
}

// threadsOf returns the number of a process's threads.
func threadsOf(pid int) int64 { return statusNumber(pid, "Threads") }

// memory: a control group's limit if it is nearly reached, else the address space of this process, else the machine's
// memory.
func memory(s *diag.ShortageFacts) {
	for _, dir := range CgroupsOf("memory") {
		for _, names := range [...][2]string{{"memory.max", "memory.current"},
			{"memory.limit_in_bytes", "memory.usage_in_bytes"}} {
			limit, used := numbers(filepath.Join(dir, names[0])), numbers(filepath.Join(dir, names[1]))
			if len(limit) == 1 && len(used) == 1 && used[0] >= limit[0]-limit[0]/20 {
				set(s, diag.ScopeCgroup, names[0]+" of "+dir, limit[0], used[0])
				s.Holders = tally(cgroupMembers(dir), residentOf)
				return
			}
		}
	}
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &l) == nil && l.Cur != unix.RLIM_INFINITY {
		set(s, diag.ScopeProcess, "ulimit -v", clampInt(l.Cur), 1024*statusNumber(os.Getpid(), "VmSize"))
		s.Holders = []diag.Holder{{Name: ownName(), Held: *s.Used}}
		return
	}
	text, _ := host.Read("/proc/meminfo", host.Small)
	all, free := 1024*field(text, "MemTotal:"), 1024*field(text, "MemAvailable:")
	limit, used := 1024*field(text, "CommitLimit:"), 1024*field(text, "Committed_AS:")
	switch mode := numbers("/proc/sys/vm/overcommit_memory"); {
	case len(mode) == 1 && mode[0] == 2 && used >= limit-limit/20:
		set(s, diag.ScopeMachine, "vm.overcommit_memory=2, CommitLimit", limit, used)
	case all > 0 && free < all/20:
		set(s, diag.ScopeMachine, "MemTotal", all, all-free)
	default:
		return // no limit that was read is exhausted
	}
	s.Holders = tally(nil, residentOf)
}

func residentOf(pid int) int64 { return 1024 * statusNumber(pid, "VmRSS") }

// networkBuffers: the memory of sockets, in pages, or the neighbour table, whichever is full.
func networkBuffers(s *diag.ShortageFacts) {
	text, _ := host.Read("/proc/self/net/sockstat", host.Small)
	for _, p := range [...]struct{ line, sysctl string }{{"TCP:", "tcp_mem"}, {"UDP:", "udp_mem"}} {
		limit := numbers("/proc/sys/net/ipv4/" + p.sysctl)
		_, rest, _ := strings.Cut(text, p.line)
		rest, _, _ = strings.Cut(rest, "\n")
		if used := field(rest, "mem"); len(limit) == 3 && used >= limit[2] {
			set(s, diag.ScopeMachine, "net.ipv4."+p.sysctl, limit[2], used)
			return
		}
	}
	limit := numbers("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
	neighbours, _ := host.Read("/proc/self/net/arp", host.Table)
	if n := int64(strings.Count(neighbours, "\n")) - 1; len(limit) == 1 && n >= limit[0] {
		set(s, diag.ScopeMachine, "net.ipv4.neigh.default.gc_thresh3", limit[0], n)
	}
}

// ownName returns this process's name in the kernel.
func ownName() string { return filepath.Base(os.Args[0]) }

func clampInt(n uint64) int64 { return int64(min(n, 1<<62)) }
