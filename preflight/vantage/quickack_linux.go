package vantage

import (
	"net"
	"syscall"
)

// quickAck asks the kernel to acknowledge at once. The setting wears off, so it is renewed around every exchange; it
// is a matter of speed only, so a failure is of no interest.
func quickAck(c *net.TCPConn) {
	if c == nil {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
	})
}
