//go:build linux

package host

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// StartTime identifies a process together with its PID; 0 if it does not exist.
func StartTime(pid int) uint64 {
	if pid <= 0 {
		return 0
	}
	s, err := host.This.Stat(pid)
	if err != nil || s.Ended() {
		return 0
	}
	return s.Started
}

// uptimeOf returns how long a process has run, in whole seconds; nil if unknown.
func uptimeOf(s host.Stat) *int64 {
	age, err := host.This.Age(s)
	if err != nil {
		return nil
	}
	return new(max(0, int64(age.Seconds())))
}

// rssOf returns a process's resident memory in bytes; nil if unknown.
func rssOf(pid int) *int64 {
	text, err := host.Read(host.This.Path(pid, "statm"), host.Small)
	if err != nil {
		return nil
	}
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return nil
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return nil
	}
	return new(pages * int64(os.Getpagesize()))
}

// cgroupOf returns a process's folders in the unified hierarchy and in the v1 freezer; "" if it has none.
func cgroupOf(pid int) (unified, freezer string) {
	groups, err := host.This.Cgroups(pid)
	if err != nil {
		return "", ""
	}
	mounts, err := host.This.Mounts(host.Thread)
	if err != nil {
		return "", ""
	}
	for _, g := range groups {
		switch {
		case g.Unified:
			unified = cgroupFolder(mounts, "cgroup2", "", g.Path)
		case slices.Equal(g.Controllers, []string{"freezer"}):
			freezer = cgroupFolder(mounts, "cgroup", "freezer", g.Path)
		}
	}
	return unified, freezer
}

// cgroupFolder returns where path of the hierarchy is mounted; "" if it is not.
func cgroupFolder(mounts []host.Mount, kind, controller, path string) string {
	for _, m := range mounts {
		if m.Kind != kind || (controller != "" && !m.HasSuper(controller)) {
			continue
		}
		dir := filepath.Join(m.Point, path)
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return ""
}

// frozen reports whether the process's control group, or one above it, is frozen. The state of a frozen process is
// still S or R.
func frozen(pid int) bool {
	unified, freezer := cgroupOf(pid)
	if unified != "" {
		b, err := os.ReadFile(filepath.Join(unified, "cgroup.events"))
		if err == nil && strings.Contains("\n"+string(b), "\nfrozen 1") {
			return true
		}
		// Until the last task has stopped, cgroup.events has 0 and cgroup.freeze 1.
		b, err = os.ReadFile(filepath.Join(unified, "cgroup.freeze"))
		if err == nil && strings.TrimSpace(string(b)) == "1" {
			return true
		}
	}
	if freezer != "" {
		b, err := os.ReadFile(filepath.Join(freezer, "freezer.state"))
		return err == nil && strings.TrimSpace(string(b)) != "THAWED"
	}
	return false
}

// cgroupPIDs lists the processes of a unit by its main process: everything in and below its unified control group, or
// only the main process if it has no group of its own. At most 512.
func cgroupPIDs(main int, controlGroup string) []int {
	unified, _ := cgroupOf(main)
	// The root group, or a session's, contains processes of others.
	if unified == "" || controlGroup == "" || !strings.HasSuffix(unified, controlGroup) {
		return []int{main}
	}
	var pids []int
	_ = filepath.WalkDir(unified, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || len(pids) >= 512 {
			return nil
		}
		b, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil
		}
		for field := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	if len(pids) == 0 {
		return []int{main}
	}
	return pids
}

// withoutTenants removes the processes of tenants that are in the control group of another user's unit, such as an
// agent's terminals if systemd gave them no unit of their own: the ports on which they listen are not the unit's.
func withoutTenants(main int, pids []int) []int {
	owner, known := host.This.RealUser(main)
	return slices.DeleteFunc(pids, func(pid int) bool {
		uid, ok := host.This.RealUser(pid)
		return known && ok && uid != owner && uid >= host.FirstTenant
	})
}

// tcpListen is LISTEN in the kernel's socket tables.
const tcpListen = "0A"

// maxFDs bounds how many descriptors of one process are read.
const maxFDs = 4096

// listening lists the TCP addresses on which the processes listen, sorted, in their main process's network namespace.
func listening(main int, pids []int) []string {
	byInode := map[string]string{}
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", main, table))
		if err == nil {
			parseListeners(string(b), byInode)
		}
	}
	if len(byInode) == 0 {
		return nil
	}
	var addrs []string
	for _, pid := range pids {
		for _, inode := range socketsOf(pid) {
			if a, ok := byInode[inode]; ok {
				addrs = append(addrs, a)
			}
		}
	}
	slices.Sort(addrs)
	return slices.Compact(addrs)
}

// socketsOf lists the inodes of a process's sockets.
func socketsOf(pid int) []string {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxFDs)
	var inodes []string
	for _, name := range names {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, name))
		if inode, ok := strings.CutPrefix(link, "socket:["); err == nil && ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes
}

// parseListeners adds inode -> address of every listening row of /proc/net/tcp or tcp6.
func parseListeners(table string, byInode map[string]string) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != tcpListen {
			continue
		}
		if addr, ok := parseSocket(fields[1]); ok {
			byInode[fields[9]] = addr
		}
	}
}

// parseSocket parses "0100007F:1F90": each 32-bit word of the address is in host order, the port in plain hex.
func parseSocket(s string) (string, bool) {
	ip, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(ip)
	n, perr := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || perr != nil || len(raw)%4 != 0 {
		return "", false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return "", false
	}
	return netip.AddrPortFrom(addr, uint16(n)).String(), true
}
