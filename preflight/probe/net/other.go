//go:build !linux

package net

import (
	"context"
	"net"
	"syscall"
)

// dialAddress opens a connection as net.Dialer does, if segments of any size will do.
func dialAddress(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if segmentsOf(ctx) > 0 {
		return nil, syscall.ENOTSUP
	}
	return d.DialContext(ctx, network, address)
}

// isolated is an error of Linux; no other system has this number.
const isolated = syscall.Errno(1 << 15)

// gap is not known here.
func gap(uintptr) bool { return false }

// hungUp is not known here.
func hungUp(uintptr) bool { return false }

// resent is not supported here.
func resent(uintptr) (int64, bool) { return 0, false }

// sizes are not known here.
func (k *Counted) sizes() (pathMTU, mss int) { return 0, 0 }
