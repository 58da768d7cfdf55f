package vantage

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/diag"
	netprobe "github.com/gpuaas/gpuaasctl/preflight/probe/net"
)

// clientVersion identifies us in the server's log.
const clientVersion = "SSH-2.0-gpuaasctl"

// reach connects to t, directly or from a jump host, and returns the time of the connection. It records the login in
// note, unless that is nil, and the link's DNS and TCP sections.
func (l *link) reach(ctx context.Context, t *target, through *ssh.Client,
	note *diag.SSHFacts) (net.Conn, time.Time, error) {
	began := time.Now()
	l.enter(phaseTCP)
	if through == nil && t.proxy == nil {
		ctx = l.watchLookup(ctx, t, note != nil)
	}
	if note != nil {
		l.set(func() { l.tcp = &diag.TCPFacts{Remote: t.address()} })
	}
	conn, err := connectTo(ctx, t, through)
	if err != nil {
		return nil, time.Time{}, dialRefusal(ctx, t, err)
	}
	connected := time.Now()
	if tcp, ok := conn.(*net.TCPConn); ok {
		conn = &netprobe.Counted{TCPConn: tcp}
	}
	if note == nil {
		return conn, connected, nil
	}
	tcp := &diag.TCPFacts{Remote: t.address()}
	if through == nil && t.proxy == nil {
		tcp.Remote, tcp.Local = conn.RemoteAddr().String(), conn.LocalAddr().String()
	}
	l.set(func() {
		if l.dns != nil {
			began = began.Add(time.Duration(l.dns.DurationMS) * time.Millisecond)
		}
		tcp.DurationMS = diag.Measured(max(0, connected.Sub(began)))
		note.TCPMS, l.tcp = tcp.DurationMS, tcp
		l.counted, _ = conn.(*netprobe.Counted)
	})
	return conn, connected, nil
}

// watchLookup sets the phase to the look-up of a name or the connection to an address, and keeps the result.
func (l *link) watchLookup(ctx context.Context, t *target, keep bool) context.Context {
	if _, err := netip.ParseAddr(t.host); err == nil {
		return ctx
	}
	l.enter(phaseDNS)
	began := time.Now()
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone: func(info httptrace.DNSDoneInfo) {
			dns := &diag.DNSFacts{Name: t.host, Source: "nss", DurationMS: diag.Measured(time.Since(began))}
			for _, a := range info.Addrs {
				dns.Addresses = append(dns.Addresses, a.String())
			}
			if info.Err == nil {
				l.enter(phaseTCP)
			}
			if keep {
				l.set(func() { l.dns = dns })
			}
		},
	})
}

// connectTo connects to t, directly, from a jump host, or through the program of ProxyCommand.
func connectTo(ctx context.Context, t *target, through *ssh.Client) (net.Conn, error) {
	switch {
	case through != nil:
		return through.DialContext(ctx, "tcp", t.address())
	case t.proxy != nil:
		conn, err := t.proxy.start()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.proxy, err)
		}
		return conn, nil
	}
	var d net.Dialer
	if t.dial.bind != "" {
		a, err := net.DefaultResolver.LookupNetIP(ctx, "ip", t.dial.bind)
		if err != nil {
			return nil, fmt.Errorf("BindAddress: %w", err)
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(a[0].Unmap(), 0))
	}
	if t.dial.within > 0 {
		d.Timeout = t.dial.within
	}
	return d.DialContext(ctx, cmp.Or(t.dial.network, "tcp"), t.address())
}
