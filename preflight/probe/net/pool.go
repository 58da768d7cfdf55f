package net

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// maxIdle is how long a connection may be idle: shorter than the keep-alive of common servers (nginx 75 s), so that it
// is rarely dead when it is reused.
const maxIdle = 30 * time.Second

// maxParked bounds the idle connections per peer: as many as a walk sends reads to an API at once, so that the next
// walk opens none for them.
const maxParked = 5

// link is one open connection, and what was measured when it was opened.
type link struct {
	conn     net.Conn // for reads and writes of an exchange
	raw      net.Conn // the same beneath TLS
	br       *bufio.Reader
	key      poolKey
	tcp      diag.TCPFacts
	tls      *diag.TLSFacts
	cert     clientCert
	verified bool // false: opened only to inspect a bad chain; it carries no secret and is never parked
	whole    bool // no exchange is in progress or failed: another may follow
	answers  bool // the first bytes of the last exchange's answer arrived
	served   bool // an earlier request was answered
	idle     time.Time
	resent   int64 // segments retransmitted during earlier requests
}

func (l *link) close() { l.raw.Close() }

// guard closes the connection when ctx ends, since not every connection has deadlines (a channel through a jump host
// has none). The returned func ends the guard, and returns false if the connection was closed.
func (l *link) guard(ctx context.Context) func() bool { return context.AfterFunc(ctx, l.close) }

// usable reports whether the peer has not closed an idle connection. A connection that cannot be checked counts as
// usable.
func (l *link) usable() bool {
	if l.br.Buffered() > 0 || time.Since(l.idle) > maxIdle {
		return false
	}
	sc, ok := l.raw.(syscall.Conn)
	if !ok {
		return true
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	alive := true
	err = rc.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		// Waiting bytes are a TLS session ticket, or the close_notify of a server that has hung up; the end of the stream
		// reads as no bytes and no error.
		alive = (n > 0 && !hungUp(fd)) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
		return true
	})
	return alive && err == nil
}

// poolKey has every input on which a connection depends: requests share a connection only if none differs. It includes
// the state of files on disk, so that an older connection never hides a rotated certificate.
type poolKey struct {
	secure                              bool
	host, port, resolve, resolver, name string
	caBundle, caInline, cert, key       string
	caBundleFile, certFile, keyFile     string
	view, network                       diag.View
}

func (c *exchange) key() poolKey {
	r := c.req
	return poolKey{
		secure: c.to.secure, host: c.to.host, port: c.to.port, resolve: r.Resolve, resolver: r.Resolver, name: r.ServerName,
		caBundle: r.CABundle, caInline: r.CAInline, cert: r.Cert, key: r.Key,
		caBundleFile: fileStamp(r.CABundle), certFile: fileStamp(r.Cert), keyFile: fileStamp(r.Key), view: r.View,
		network: r.Network,
	}
}

// fileStamp changes when the file does.
func fileStamp(path string) string {
	if path == "" {
		return ""
	}
	fi, err := os.Stat(path)
	if err != nil {
		return "absent"
	}
	var inode, device uint64
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		inode, device = st.Ino, uint64(st.Dev) //nolint:unconvert // of another type on other systems
	}
	return fmt.Sprint(fi.ModTime().UnixNano(), fi.Size(), inode, device)
}

// pool keeps idle connections between the requests of one prober. The zero value is empty.
type pool struct {
	mu   sync.Mutex // guards idle
	idle map[poolKey][]*link
}

// get returns a connection that was parked under key and goes to one of addrs, or nil. It closes connections under key
// to any other address: the name no longer resolves to it.
func (p *pool) get(key poolKey, addrs []netip.Addr) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		links := p.idle[key]
		if len(links) == 0 {
			return nil
		}
		l := links[len(links)-1]
		p.idle[key] = links[:len(links)-1]
		if to, err := netip.ParseAddrPort(l.tcp.Remote); err == nil && slices.Contains(addrs, to.Addr()) && l.usable() {
			return l
		}
		l.close()
	}
}

// put keeps l for the next request, or closes it if enough are idle.
func (p *pool) put(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle[l.key]) >= maxParked {
		l.close()
		return
	}
	if p.idle == nil {
		p.idle = map[poolKey][]*link{}
	}
	l.idle = time.Now()
	p.idle[l.key] = append(p.idle[l.key], l)
}

// Close closes the connections that the prober kept. The prober can still be used afterwards.
func (p *Prober) Close() {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	for _, links := range p.pool.idle {
		for _, l := range links {
			l.close()
		}
	}
	p.pool.idle = nil
}
