package sshtest

import (
	"io"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// freezer is a connection that can stop reading without being closed.
type freezer struct {
	net.Conn
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex // guards frozen
	frozen bool
}

func newFreezer(c net.Conn) *freezer { return &freezer{Conn: c, closed: make(chan struct{})} }

// Read blocks once the connection is frozen, until it is closed.
func (f *freezer) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if f.isFrozen() {
		<-f.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Write blocks once the connection is frozen, until it is closed.
func (f *freezer) Write(p []byte) (int, error) {
	if f.isFrozen() {
		<-f.closed
		return 0, net.ErrClosed
	}
	return f.Conn.Write(p)
}

func (f *freezer) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.Conn.Close()
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

func (f *freezer) isFrozen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen
}

// gone returns a channel that is closed when the client disconnects or the server is closed. It keeps reading, as a
// kernel would.
func (f *freezer) gone(s *Server) <-chan struct{} {
	s.wg.Go(func() {
		_, _ = io.Copy(io.Discard, f.Conn)
		_ = f.Close()
	})
	return f.closed
}

// relay copies both ways until both have ended, or the channel is gone.
func relay(ch ssh.Channel, c net.Conn) {
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(c, ch)
		_ = c.Close()
	})
	wg.Go(func() {
		_, _ = io.Copy(ch, c)
		_ = ch.CloseWrite()
		_ = ch.Close()
	})
	wg.Wait()
}
