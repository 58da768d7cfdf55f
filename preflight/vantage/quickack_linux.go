package vantage

import (
	"net"
	"syscall"
)

// quickAck asks the kernel to acknowledge at once. The kernel resets the setting, so it is renewed around every
// exchange. It only affects speed, so errors are ignored.
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
