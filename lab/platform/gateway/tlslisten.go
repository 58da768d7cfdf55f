package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// handshakeTime bounds a TLS handshake: even a slow client needs only a few round trips.
const handshakeTime = 10 * time.Second

// Limits bound the resources of one peer of a TLS listener. The zero value of a field means its default.
type Limits struct {
	PerCertificate int // open connections of one client certificate; default 64
	Handshakes     int // handshakes in progress, of all peers; default 512
	PerAddress     int // handshakes in progress from one address; default 32
}

func (l Limits) withDefaults() Limits {
	l.PerCertificate = cmp.Or(l.PerCertificate, 64)
	l.Handshakes = cmp.Or(l.Handshakes, 512)
	l.PerAddress = cmp.Or(l.PerAddress, 32)
	return l
}

// TooManyError is the error of a connection that was closed because its verified certificate has too many
// connections.
type TooManyError struct{ Certificate *x509.Certificate }

func (e *TooManyError) Error() string { return "the client certificate has too many open connections" }

// tlsListener accepts connections after their TLS handshake, and reports failed handshakes.
type tlsListener struct {
	net.Listener
	config *tls.Config
	limits Limits
	failed func(remote string, err error)

	mu          sync.Mutex
	handshaking int            // guarded by mu
	held        map[string]int // handshakes by address, connections by certificate digest; guarded by mu

	ready  chan *tls.Conn
	ended  chan struct{} // closed with the listener
	cancel context.CancelFunc
	err    error // why accepting ended; set before ended is closed
	wg     sync.WaitGroup
}

// ListenTLS terminates TLS on ln itself, rather than in the HTTP server, to observe failed handshakes: it calls
// failed for each, with an error that contains the client's certificate. A peer that connects and sends nothing is
// not a failure. A connection over a limit is closed: before its handshake silently, afterwards with a failure, a
// *TooManyError.
func ListenTLS(ln net.Listener, config *tls.Config, limits Limits, failed func(remote string, err error)) net.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &tlsListener{Listener: ln, config: config, limits: limits.withDefaults(), failed: failed, held: map[string]int{},
		ready: make(chan *tls.Conn), ended: make(chan struct{}), cancel: cancel}
	l.wg.Go(func() { l.accept(ctx) })
	return l
}

func (l *tlsListener) accept(ctx context.Context) {
	defer close(l.ended)
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				continue
			}
			l.err = err
			return
		}
		remote := address(conn)
		if !l.enter(remote) {
			_ = conn.Close()
			continue
		}
		counted := &countedConn{Conn: conn}
		l.wg.Go(func() { l.handshake(ctx, tls.Server(counted, l.config), counted, remote) })
	}
}

func address(conn net.Conn) string {
	text := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return text
}

// enter takes a handshake slot, or returns false.
func (l *tlsListener) enter(remote string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handshaking >= l.limits.Handshakes || l.held[remote] >= l.limits.PerAddress {
		return false
	}
	l.handshaking++
	l.held[remote]++
	return true
}

func (l *tlsListener) release(remote string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handshaking--
	l.drop(remote)
}

// drop releases a slot of key. mu is held.
func (l *tlsListener) drop(key string) {
	if l.held[key]--; l.held[key] == 0 {
		delete(l.held, key)
	}
}

// keep counts a connection for its client certificate until it is closed; it returns false if the certificate has
// too many.
func (l *tlsListener) keep(conn *tls.Conn, counted *countedConn) bool {
	certs := conn.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return true
	}
	sum := sha256.Sum256(certs[0].Raw)
	key := string(sum[:]) // no address: those are text
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[key] >= l.limits.PerCertificate {
		return false
	}
	l.held[key]++
	counted.closed = sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.drop(key)
	})
	return true
}

// countedConn is a connection that releases its slot when it is closed, even by code that took it over from HTTP.
// closed is set before any other goroutine has the connection.
type countedConn struct {
	net.Conn
	closed func() // nil: it has no place
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	if c.closed != nil {
		c.closed()
	}
	return c.Conn.Close()
}

func (l *tlsListener) handshake(ctx context.Context, conn *tls.Conn, counted *countedConn, remote string) {
	hctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	err := conn.HandshakeContext(hctx)
	l.release(remote)
	if err == nil && !l.keep(conn, counted) {
		err = &TooManyError{conn.ConnectionState().PeerCertificates[0]}
	}
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, io.EOF) {
			l.failed(conn.RemoteAddr().String(), err)
		}
		_ = conn.Close() // it is of no use any more
		return
	}
	select {
	case l.ready <- conn:
	case <-ctx.Done():
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case <-l.ended:
		return nil, l.err
	}
}

// Close implements net.Listener; it aborts handshakes in progress and waits for them.
func (l *tlsListener) Close() error {
	l.cancel()
	err := l.Listener.Close()
	l.wg.Wait()
	return err
}
