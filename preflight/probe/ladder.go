package probe

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// The phases of the ladder, as Fact.Phase has them.
const (
	phaseTarget = "target" // the request itself cannot be carried out
	phaseEnv    = "env"    // a ${NAME} has no value here
	phaseDNS    = "dns"
	phaseTCP    = "tcp"
	phaseTrust  = "trust" // the CA bundle, before the handshake
	phaseCert   = "cert"  // the client certificate or its key, before the handshake
	phaseTLS    = "tls"
	phaseMTLS   = "mtls" // the server's word on the client certificate, whichever read brought it
	phaseHTTP   = "http"
	phasePoll   = "poll"
	phaseWS     = "ws"
	phasePTY    = "pty"
)

// target is where a request goes: a name, a host:port or a URL, all three understood by every network op.
type target struct {
	url        *url.URL // with scheme http or https; path and query only matter to the HTTP ops
	host, port string
	secure     bool
}

// climb is one request on its way up the ladder dns, tcp, tls, http, ws, session. Each rung fills its section of the
// fact and reports whether the next may be tried. It belongs to one goroutine.
type climb struct {
	p     *Prober
	req   diag.Request
	f     *diag.Fact
	to    target
	addrs []netip.Addr
	raw   net.Conn // set by connect until secure makes a link of it
	link  *link
	spare spare
}

// newClimb returns nil, with the failure in f, when the target makes no sense, or a path to extract none here.
func (p *Prober) newClimb(req diag.Request, f *diag.Fact) *climb {
	c := &climb{p: p, req: req, f: f}
	var err error
	if c.to, err = parseTarget(withQuery(req)); err != nil {
		c.failed(phaseTarget, diag.Unsupported, err)
		return nil
	}
	for _, path := range req.Extract {
		if p.Lookup == nil && !plainPath(path) {
			c.failed(phaseTarget, diag.Unsupported, errors.New("not names and indices joined by dots: "+path))
			return nil
		}
	}
	return c
}

// withQuery is the target with the query that must not be written anywhere.
func withQuery(req diag.Request) string {
	switch {
	case req.Query.IsZero():
		return req.Target
	case strings.Contains(req.Target, "?"):
		return req.Target + "&" + req.Query.Reveal()
	}
	return req.Target + "?" + req.Query.Reveal()
}

// parseTarget reads "name", "host:port" or a URL. A bare name gets port 443, a URL its scheme's.
func parseTarget(s string) (target, error) {
	if !strings.Contains(s, "://") {
		if strings.ContainsAny(s, "/?#@ ") || s == "" {
			return target{}, errors.New("the target must be a name, host:port or a URL")
		}
		if _, err := netip.ParseAddr(s); err == nil && strings.Contains(s, ":") {
			s = "[" + s + "]"
		}
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // the URL itself may hold a query
		}
		return target{}, err
	}
	t := target{url: u, host: strings.TrimSuffix(u.Hostname(), "."), port: u.Port()}
	switch u.Scheme {
	case "https", "wss":
		u.Scheme, t.secure = "https", true
	case "http", "ws":
		u.Scheme = "http"
	default:
		return target{}, errors.New("no such scheme: " + u.Scheme)
	}
	if t.host == "" || strings.HasPrefix(t.host, "-") {
		return target{}, errors.New("the target has no host")
	}
	if t.port == "" {
		t.port = "80"
		if t.secure {
			t.port = "443"
		}
	}
	return t, nil
}

// serverName is what the handshake asks for and verifies.
func (c *climb) serverName() string {
	return cmp.Or(c.req.ServerName, c.to.host)
}

// up climbs the whole ladder beneath HTTP.
func (c *climb) up(ctx context.Context) bool { return c.lookup(ctx) && c.connect(ctx) && c.secure(ctx) }

// failed writes the failure, once: the first failure is kept.
func (c *climb) failed(phase string, word diag.Failure, err error) {
	if c.f.Failure != diag.OK {
		return
	}
	c.f.Failure, c.f.Phase = word, phase
	if err != nil {
		c.f.Errno = errnoName(err)
		c.f.Detail = clean(c.req, err.Error())
		lacking(c.f, err)
	}
}

// stopped is failed for a phase that may have been ended by ctx: cancelled when the walk was given up, late
// when the time was up.
func (c *climb) stopped(ctx context.Context, phase string, late, word diag.Failure, err error) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		word = diag.Cancelled
	case timedOut(ctx, err):
		word = late
	}
	c.failed(phase, word, err)
}

// counted is a connection that reads how many segments it had to send again before it is closed: the end of a request's
// time closes it, and then the kernel knows no more of it.
type counted struct {
	*net.TCPConn
	last atomic.Pointer[int64] // as it was closed
}

// Close implements net.Conn.
func (k *counted) Close() error {
	if n, ok := k.ask(); ok {
		k.last.Store(&n)
	}
	return k.TCPConn.Close()
}

// ask is how many segments were sent again so far; false where the kernel does not say.
func (k *counted) ask() (n int64, ok bool) {
	rc, err := k.SyscallConn()
	if err != nil {
		return 0, false
	}
	_ = rc.Control(func(fd uintptr) { n, ok = resent(fd) })
	return n, ok
}

// countResent notes how many segments the connection had to send again during this request.
func (c *climb) countResent() {
	conn, before := c.raw, int64(0)
	if c.link != nil {
		conn, before = c.link.raw, c.link.resent
	}
	k, ok := conn.(*counted)
	if !ok || c.f.TCP == nil {
		return
	}
	total, ok := k.ask()
	if last := k.last.Load(); !ok && last != nil {
		total, ok = *last, true
	}
	if !ok {
		return
	}
	c.f.TCP.Resent = new(total - before)
	if c.link != nil {
		c.link.resent = total
	}
}

// leave closes what is still open.
func (c *climb) leave() {
	c.countResent()
	if c.raw != nil {
		c.raw.Close()
	}
	if c.link != nil {
		c.link.close()
	}
	c.raw, c.link = nil, nil
	c.spare.settle()
}

// The three lowest ops climb on a connection of their own and close it: they never use a kept one.

func (p *Prober) dns(ctx context.Context, req diag.Request, f *diag.Fact) {
	if c := p.newClimb(req, f); c != nil {
		c.lookup(ctx)
	}
}

func (p *Prober) tcp(ctx context.Context, req diag.Request, f *diag.Fact) {
	if c := p.newClimb(req, f); c != nil {
		defer c.leave()
		_ = c.lookup(ctx) && c.connect(ctx)
	}
}

func (p *Prober) tls(ctx context.Context, req diag.Request, f *diag.Fact) {
	if c := p.newClimb(req, f); c != nil {
		defer c.leave()
		c.to.secure = true
		c.up(ctx)
	}
}

// since is the duration of a phase that began at t.
func since(t time.Time) diag.Millis { return diag.Measured(time.Since(t)) }
