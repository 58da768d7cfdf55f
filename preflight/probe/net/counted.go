package net

import (
	"net"
	"sync/atomic"
)

// Counted is a connection that reads its number of retransmitted segments before it is closed: the end of a request's
// time closes it, and then the kernel no longer has the number.
type Counted struct {
	*net.TCPConn
	last atomic.Pointer[transport] // as it was closed
}

// transport is what the kernel knows of a connection.
type transport struct {
	resent int64 // segments
	gap    bool  // received bytes follow missing ones
}

// Resent returns how many segments were sent again on the connection, also after its end; nil if the kernel does not
// report it.
func (k *Counted) Resent() *int64 {
	if now, ok := k.state(); ok {
		return &now.resent
	}
	return nil
}

// Close implements net.Conn.
func (k *Counted) Close() error {
	if now, ok := k.ask(); ok {
		k.last.Store(&now)
	}
	return k.TCPConn.Close()
}

// state returns the state of the connection, or that at its end; false if the kernel does not report it.
func (k *Counted) state() (transport, bool) {
	now, ok := k.ask()
	if last := k.last.Load(); !ok && last != nil {
		return *last, true
	}
	return now, ok
}

// ask returns the state of an open connection; false if the kernel does not report it.
func (k *Counted) ask() (now transport, ok bool) {
	rc, err := k.SyscallConn()
	if err != nil {
		return now, false
	}
	_ = rc.Control(func(fd uintptr) {
		now.resent, ok = resent(fd)
		now.gap = gap(fd)
	})
	return now, ok
}
