package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// handshakeTime bounds a TLS handshake: the slowest honest one is a few round trips.
const handshakeTime = 10 * time.Second

// tlsListener hands out connections whose TLS handshake is done, and reports those that failed.
type tlsListener struct {
	net.Listener
	config *tls.Config
	failed func(remote string, err error)

	ready  chan *tls.Conn
	ended  chan struct{} // closed with the listener
	cancel context.CancelFunc
	err    error // why accepting ended; set before ended is closed
	wg     sync.WaitGroup
}

// ListenTLS ends TLS on ln itself, in place of the HTTP server, to know about handshakes that fail: failed is called
// for each, with the error that holds the client's certificate. A peer that connects and says nothing is not a failure.
func ListenTLS(ln net.Listener, config *tls.Config, failed func(remote string, err error)) net.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &tlsListener{Listener: ln, config: config, failed: failed, ready: make(chan *tls.Conn), ended: make(chan struct{}), cancel: cancel}
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
		l.wg.Go(func() { l.handshake(ctx, tls.Server(conn, l.config)) })
	}
}

func (l *tlsListener) handshake(ctx context.Context, conn *tls.Conn) {
	hctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	if err := conn.HandshakeContext(hctx); err != nil {
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

// Close implements net.Listener; it waits for handshakes in progress, which it ends.
func (l *tlsListener) Close() error {
	l.cancel()
	err := l.Listener.Close()
	l.wg.Wait()
	return err
}
