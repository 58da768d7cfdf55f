package net

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// resent returns how many segments of a connection the kernel retransmitted because they, or their acknowledgements,
// were lost. A segment that the peer reports as a duplicate does not count: it was not lost, but retransmitted too
// early.
func resent(fd uintptr) (int64, bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	return max(0, int64(info.Total_retrans)-int64(info.Dsack_dups)), true
}

// gap reports whether bytes have arrived on a connection that follow missing ones: the kernel keeps them, and nothing
// is left to read.
func gap(fd uintptr) bool {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Rcv_ooopack == 0 {
		return false
	}
	unread, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
	if err != nil || unread > 0 {
		return false
	}
	var memory [9]uint32 // SK_MEMINFO_VARS; the first is the memory of received data
	size := uint32(unsafe.Sizeof(memory))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&memory)), uintptr(unsafe.Pointer(&size)), 0) // x/sys/unix has no such call
	return errno == 0 && memory[0] > 0
}

// hungUp reports whether the peer of a connection has ended its half, also where bytes still wait before that end.
func hungUp(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a file descriptor
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}
