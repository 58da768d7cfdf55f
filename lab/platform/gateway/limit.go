package gateway

import (
	"net"
	"sync"
)

// limited is a listener with a bounded number of open connections.
type limited struct {
	net.Listener
	slots chan struct{}
}

// LimitConnections closes connections of ln at once while n others are open: waiting ones would hold descriptors too.
func LimitConnections(ln net.Listener, n int) net.Listener {
	return &limited{Listener: ln, slots: make(chan struct{}, n)}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &limitedConn{Conn: conn, leave: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			_ = conn.Close()
		}
	}
}

type limitedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
