package platformtest

import (
	"errors"
	"net"
	"sync"

	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
)

// Names of a platform's listeners, for Kill and Freeze.
const (
	AtAPIEdge      = "api_edge"
	AtTerminalEdge = "terminal_edge"
	AtIngress      = "ingress"
	AtAppEdge      = "app_edge"
	AtAPI          = "api"
	AtNodeAPI      = "node_api"
	AtGateway      = "gateway"
	AtNodeTerminal = "node_terminal"
)

// Kill ends the processes of listeners as SIGKILL does: their connections end, and their ports refuse. The code behind
// them still runs, and reaches nobody.
func (p *Platform) Kill(names ...string) { p.halt(killed, names) }

// Freeze stops the processes of listeners as SIGSTOP does, until the end of the test: the kernel still accepts
// connections and acknowledges data, and nothing is read, written or closed.
func (p *Platform) Freeze(names ...string) { p.halt(frozen, names) }

func (p *Platform) halt(m haltMode, names []string) {
	p.tb.Helper()
	for _, name := range names {
		h, ok := p.halts[name]
		if !ok {
			p.tb.Fatalf("no listener %s", name)
		}
		h.set(m)
		p.tb.Cleanup(func() { h.set(killed) })
	}
	for _, name := range names { // when all have ended, as one process ends
		if m == killed {
			porttest.Keep(p.tb, p.halts[name].Addr().String())
		}
	}
}

type haltMode int

const (
	running haltMode = iota
	frozen
	killed
)

// haltable is a listener whose process a test can halt.
type haltable struct {
	net.Listener

	mu     sync.Mutex
	mode   haltMode      // guarded by mu
	thaw   chan struct{} // closed when mode is no longer frozen
	close  func()        // closes closed, once
	closed chan struct{}
	conns  map[*haltConn]struct{} // guarded by mu
}

// haltable makes l the listener of that name.
func (p *Platform) haltable(name string, l net.Listener) net.Listener {
	h := &haltable{Listener: l, thaw: make(chan struct{}), closed: make(chan struct{}), conns: map[*haltConn]struct{}{}}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	p.halts[name] = h
	return h
}

func (h *haltable) set(m haltMode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mode == killed {
		return
	}
	h.mode = m
	if m == killed {
		close(h.thaw)
		_ = h.Listener.Close()
		for c := range h.conns {
			_ = c.Conn.Close()
		}
	}
}

// wait returns when the process is not frozen; false if it is dead.
func (h *haltable) wait() bool {
	h.mu.Lock()
	mode := h.mode
	h.mu.Unlock()
	if mode == frozen {
		<-h.thaw
		return false
	}
	return mode == running
}

// Accept implements net.Listener.
func (h *haltable) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	if !h.wait() {
		if err == nil {
			_ = c.Close()
		}
		<-h.closed // its server must not notice
		return nil, net.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	out := &haltConn{Conn: c, of: h}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[out] = struct{}{}
	return out, nil
}

// Close implements net.Listener.
func (h *haltable) Close() error {
	h.close()
	if err := h.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // killed
}

// haltConn is a connection of a haltable.
type haltConn struct {
	net.Conn

	of *haltable
}

// Read implements net.Conn.
func (c *haltConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.of.wait() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn.
func (c *haltConn) Write(b []byte) (int, error) {
	if !c.of.wait() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn; a frozen process closes nothing.
func (c *haltConn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.mode == frozen {
		return nil
	}
	delete(c.of.conns, c)
	return c.Conn.Close()
}
