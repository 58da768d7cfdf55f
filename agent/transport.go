package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/credstore"
)

// Deadlines of one connection.
const (
	dialTimeout      = 5 * time.Second // two SYN retransmissions
	handshakeTimeout = 5 * time.Second
)

// tlsConn remembers whether the listener requested a client certificate: a listener that never did is a public
// edge, and its denials do not concern this node's identity.
type tlsConn struct {
	*tls.Conn
	asked bool
}

// dialer makes TLS connections with the credentials as they are on disk at that moment.
type dialer struct {
	creds  credentials
	bundle string         // path of the bundle that verifies the listener
	pool   *x509.CertPool // in place of bundle
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	bare   bool // enrollment: no certificate
	system bool // the system's roots if no bundle was provisioned
}

// DialTLS connects and verifies the server. With TLS 1.3, a refused client certificate shows only at the first
// read.
func (d dialer) DialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	roots, err := d.roots()
	if err != nil {
		return nil, err
	}
	raw, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &tlsConn{}
	c.Conn = tls.Client(raw, &tls.Config{
		ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		// A certificate in Config.Certificates is withheld if the listener does not list its issuer; this one is
		// always sent, so that the listener itself reports why it refuses it.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c.asked = true
			if d.bare {
				return &tls.Certificate{}, nil
			}
			pair, err := d.creds.Pair()
			if errors.Is(err, fs.ErrNotExist) {
				return &tls.Certificate{}, nil
			}
			return pair, err
		},
	})
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, closeQuietly(raw))
	}
	return c, nil
}

func (d dialer) roots() (*x509.CertPool, error) {
	if d.pool != nil {
		return d.pool, nil
	}
	roots, err := credstore.Roots(d.bundle)
	if d.system && errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the system's
	}
	return roots, err
}

func closeQuietly(c net.Conn) error {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// transport returns an HTTP/1.1 transport over d; it keeps connections for as long as common ingresses do.
func (d dialer) transport(keep bool) *http.Transport {
	return &http.Transport{
		DialTLSContext: d.DialTLS, DisableKeepAlives: !keep, MaxIdleConnsPerHost: 2, IdleConnTimeout: 60 * time.Second,
		DisableCompression: true,
	}
}

// rotation returns a transport for the credentials on disk. When those change it makes a new one: in an old
// transport, a connection that was in use would return to the idle pool and be used again.
type rotation struct {
	dialer dialer
	mu     sync.Mutex // guards what follows
	seen   string
	now    *http.Transport
}

func (r *rotation) transport() *http.Transport {
	seen := stamp(r.dialer.creds.Path(fileCert)) + stamp(r.dialer.creds.Path(fileKey)) + stamp(r.dialer.bundle)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || r.seen != seen {
		if r.now != nil {
			r.now.CloseIdleConnections() // connections in use are closed afterwards: nothing uses this transport again
		}
		r.now, r.seen = r.dialer.transport(true), seen
	}
	return r.now
}

func (r *rotation) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		r.now.CloseIdleConnections()
	}
}

// inode identifies a file beyond its path.
func inode(fi os.FileInfo) [2]uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return [2]uint64{uint64(st.Dev), st.Ino} //nolint:unconvert // of another type on other systems
	}
	return [2]uint64{}
}
