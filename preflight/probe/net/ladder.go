package net

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// The phases of a request, as in Fact.Phase.
const (
	phaseTarget = "target" // the request itself is invalid
	phaseEnv    = "env"    // a ${NAME} has no value here
	phaseDNS    = "dns"
	phaseTCP    = "tcp"
	phaseTrust  = "trust" // the CA bundle, before the handshake
	phaseCert   = "cert"  // the client certificate or its key, before the handshake
	phaseTLS    = "tls"
	phaseMTLS   = "mtls" // the server's answer to the client certificate, whichever read returned it
	phaseHTTP   = "http"
	phasePoll   = "poll"
	phaseWS     = "ws"
	phasePTY    = "pty"
)

// target is where a request goes: a name, a host:port or a URL; every network operation accepts all three.
type target struct {
	url        *url.URL // with scheme http or https; only HTTP operations use path and query
	host, port string
	secure     bool
}

// exchange is one request on its way through the phases dns, tcp, tls, http, ws, session. Each phase fills its section
// of the fact and reports whether the next may begin. An exchange belongs to one goroutine.
type exchange struct {
	p     *Prober
	req   diag.Request
	f     *diag.Fact
	to    target
	addrs []netip.Addr
	raw   net.Conn // set by connect until secure makes a link of it
	link  *link
	spare spare
}

// newExchange returns nil, with the failure in f, if the target is invalid, or a path to extract is not supported here.
func (p *Prober) newExchange(req diag.Request, f *diag.Fact) *exchange {
	c := &exchange{p: p, req: req, f: f}
	var err error
	if c.to, err = parseTarget(withQuery(req)); err != nil {
		c.failed(phaseTarget, diag.Unsupported, err)
		return nil
	}
	if p.ProxyOf != nil {
		f.Proxy = p.ProxyOf(c.to.secure, net.JoinHostPort(c.to.host, c.to.port))
	}
	for _, path := range req.Extract {
		if p.Lookup == nil && !plainPath(path) {
			c.failed(phaseTarget, diag.Unsupported, errors.New("not names and indices joined by dots: "+path))
			return nil
		}
	}
	return c
}

// withQuery returns the target with its secret query.
func withQuery(req diag.Request) string {
	switch {
	case req.Query.IsZero():
		return req.Target
	case strings.Contains(req.Target, "?"):
		return req.Target + "&" + req.Query.Reveal()
	}
	return req.Target + "?" + req.Query.Reveal()
}

// parseTarget parses "name", "host:port" or a URL. A bare name gets port 443, a URL its scheme's.
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
			err = ue.Err // the URL itself may contain a query
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

// serverName returns the name that the handshake sends and verifies.
func (c *exchange) serverName() string {
	return cmp.Or(c.req.ServerName, c.to.host)
}

// establish goes through all phases below HTTP.
func (c *exchange) establish(ctx context.Context) bool {
	return c.lookup(ctx) && c.connect(ctx) && c.secure(ctx)
}

// failed records the failure, unless there is one already.
func (c *exchange) failed(phase string, word diag.Failure, err error) {
	if c.f.Failure != diag.OK {
		return
	}
	c.f.Failure, c.f.Phase = word, phase
	if err != nil {
		c.f.Errno = measure.ErrnoName(err)
		c.f.Detail = scrub.Clean(c.req, err.Error())
		measure.MarkExhausted(c.f, err)
	}
}

// stopped is failed for a phase that ctx may have ended: cancelled if the walk was cancelled, late if the time was up.
func (c *exchange) stopped(ctx context.Context, phase string, late, word diag.Failure, err error) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		word = diag.Cancelled
	case timedOut(ctx, err):
		word = late
	}
	c.failed(phase, word, err)
}

// countResent records how many segments the connection retransmitted during this request, and whether an answer that
// did not come has a gap.
func (c *exchange) countResent() {
	conn, before := c.raw, int64(0)
	if c.link != nil {
		conn, before = c.link.raw, c.link.resent
	}
	k, ok := conn.(*Counted)
	if !ok || c.f.TCP == nil {
		return
	}
	now, ok := k.state()
	if !ok {
		return
	}
	c.f.TCP.Resent, c.f.TCP.Gap = new(now.resent-before), now.gap && c.f.Failure.Silent()
	if c.link != nil {
		c.link.resent = now.resent
	}
}

// close closes what is still open.
func (c *exchange) close() {
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

// The operations dns, tcp and tls open a new connection and close it: they never use a kept one.

func (p *Prober) dns(ctx context.Context, req diag.Request, f *diag.Fact) {
	if c := p.newExchange(req, f); c != nil {
		c.lookup(ctx)
	}
}

func (p *Prober) tcp(ctx context.Context, req diag.Request, f *diag.Fact) {
	if c := p.newExchange(req, f); c != nil {
		defer c.close()
		_ = c.lookup(ctx) && c.connect(ctx)
	}
}

func (p *Prober) tls(ctx context.Context, req diag.Request, f *diag.Fact) {
	if c := p.newExchange(req, f); c != nil {
		defer c.close()
		c.to.secure = true
		c.establish(ctx)
	}
}

// since returns the duration of a phase that began at t.
func since(t time.Time) diag.Millis { return diag.Measured(time.Since(t)) }
