package net

import (
	"context"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitSegments limits the segments of a connection before it is made, so that the handshake tells the peer as well.
func limitSegments(ctx context.Context, rc syscall.RawConn) error {
	mss := segmentsOf(ctx)
	if mss == 0 {
		return nil
	}
	var set error
	err := rc.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, mss) })
	if err != nil {
		return err
	}
	return set
}

// sizes returns the path's MTU as the kernel knows it, and the segments that it sends; 0 for what it does not report.
func (k *Counted) sizes() (pathMTU, mss int) {
	rc, err := k.SyscallConn()
	if err != nil {
		return 0, 0
	}
	_ = rc.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			pathMTU, mss = int(info.Pmtu), int(info.Snd_mss)
		}
	})
	return pathMTU, mss
}
