package net

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// isolated is the error of an ICMP message "host isolated".
const isolated = syscall.ENONET

// An IPv6 connection attempt fails with EACCES if this machine's policy refuses it, and also if a router or the target
// answers with the ICMP error "administratively prohibited" (IPv4 has EHOSTUNREACH for the latter). Since version 5.9
// the kernel tells them apart: with IPV6_RECVERR it queues the ICMP error and its sender.

// dialAddress opens a connection to an address as net.Dialer does. The error of a TCP connection over IPv6 that was
// refused by policy is a *prohibited if the kernel reports who refused it.
func dialAddress(ctx context.Context, network, address string) (net.Conn, error) {
	twin := -1 // a second descriptor of the socket, which the dialer closes if it fails
	drop := func() {
		if twin >= 0 {
			_ = unix.Close(twin)
		}
		twin = -1
	}
	defer drop()
	d := net.Dialer{Control: func(network, _ string, rc syscall.RawConn) error {
		if err := limitSegments(ctx, rc); err != nil {
			return err
		}
		if network != "tcp6" || !queuesICMP() {
			return nil
		}
		return rc.Control(func(fd uintptr) {
			drop()
			if n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
				twin = n
				_ = unix.SetsockoptInt(twin, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
			}
		})
	}}
	conn, err := d.DialContext(ctx, network, address)
	switch {
	case twin < 0:
	case err == nil: // with the option, any ICMP error would end the connection
		_ = unix.SetsockoptInt(twin, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 0)
	case measure.ErrnoName(err) == "EACCES":
		from, code := queuedICMP(twin)
		return nil, &prohibited{err, from, code, from.IsValid() && isOwn(from)}
	}
	return conn, err
}

// queuesICMP reports whether the kernel queues the ICMP errors of connection attempts.
func queuesICMP() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	n, _ := fmt.Sscanf(strings.TrimRight(string(u.Release[:]), "\x00"), "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || (major == 5 && minor >= 9))
}

// queuedICMP reads the ICMPv6 error that ended a connection attempt: its sender and its code; the zero address if none
// was queued.
func queuedICMP(fd int) (from netip.Addr, code uint8) {
	oob := make([]byte, 512)
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 1), oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err != nil {
		return from, 0
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return from, 0
	}
	// struct sock_extended_err (errno 4 bytes, origin, type, code, pad, info 4, data 4), then the sender's sockaddr_in6
	// (family 2, port 2, flow 4, address 16).
	const origin, codeAt, sender, length = 4, 6, 16, 16 + 8 + 16
	for _, m := range messages {
		if m.Header.Level != unix.IPPROTO_IPV6 || m.Header.Type != unix.IPV6_RECVERR || len(m.Data) < length ||
			m.Data[origin] != unix.SO_EE_ORIGIN_ICMP6 {
			continue
		}
		if a, ok := netip.AddrFromSlice(m.Data[sender+8 : length]); ok && !a.IsUnspecified() {
			return a, m.Data[codeAt]
		}
	}
	return from, 0
}

// isOwn reports whether an address is one of this machine's: its own packet filter rejects with ICMP errors as well.
func isOwn(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // not known to be another's
	}
	for _, own := range addrs {
		if p, err := netip.ParsePrefix(own.String()); err == nil && p.Addr().Unmap() == a.Unmap() {
			return true
		}
	}
	return a.IsLoopback()
}
