//go:build linux

package probe

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// tcpListen is LISTEN in the kernel's socket tables.
const tcpListen = "0A"

// maxFDs bounds how many descriptors of one process are looked at.
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

// parseSocket reads "0100007F:1F90": each 32-bit word of the address is in host order, the port in plain hex.
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
