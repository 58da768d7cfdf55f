package net

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
)

// Sources of addresses, as in DNSFacts.Source.
const (
	sourcePinned       = "pinned"
	sourceLiteral      = "literal"
	sourceHostsManaged = "hosts_managed"
	sourceHostsManual  = "hosts_manual"
	sourceNSS          = "nss"
	sourceDNS          = "dns"
)

// noSuchName is the failure if no source has the name and no DNS server was asked.
const noSuchName = diag.DNSNXDomain

// familyGrace is how long to wait for the second address family after the first has answered: a server that drops AAAA
// queries must not cost its whole timeout.
const familyGrace = 250 * time.Millisecond

// resolverTimeout and resolverAttempts apply to a server that the request names; resolv.conf has its own.
const (
	resolverTimeout  = 2 * time.Second
	resolverAttempts = 2
)

// found is the result of one look-up.
type found struct {
	addrs  []netip.Addr
	source string
	line   string // path:number in a hosts file
	server string // host:port of the DNS server that answered, or was asked last
	rcode  string
	whole  string           // the name that has the addresses, if it is another than the one asked for
	kind   dnsmessage.Type  // of the records that were asked for
	mute   string           // the kind of records that the server did not answer, while it answered the other
	each   []diag.DNSAnswer // the separate answer of each server
	turns  bool             // the servers take turns
	unset  bool             // resolv.conf names no server
	file   string           // names the servers behind a resolver on the host itself
	behind []diag.DNSAnswer // the answer of each of them
	cut    bool             // the answer over UDP was truncated, and the query over TCP failed
	word   diag.Failure
	err    error
}

// lookup is the first phase: addresses for the target's host.
func (c *exchange) lookup(ctx context.Context) bool {
	d := &diag.DNSFacts{Name: c.to.host}
	c.f.DNS = d
	began := time.Now()
	var got found
	literal, isLiteral := netip.ParseAddr(c.to.host)
	switch {
	case c.req.Resolve != "":
		addr, err := netip.ParseAddr(strings.Trim(c.req.Resolve, "[]"))
		if err != nil {
			c.failed(phaseTarget, diag.Unsupported, errors.New("the address to use in place of the look-up is not one"))
			return false
		}
		got = found{addrs: []netip.Addr{addr}, source: sourcePinned}
	case isLiteral == nil:
		got = found{addrs: []netip.Addr{literal}, source: sourceLiteral}
	case c.req.Resolver != "":
		got = question{servers: []string{withPort(c.req.Resolver, "53")}, names: []string{c.to.host + "."},
			exact: c.to.host + ".", timeout: resolverTimeout, attempts: resolverAttempts}.ask(ctx, c.p)
		d.DurationMS = since(began)
	default:
		got = c.lookupHost(ctx, c.to.host)
		d.DurationMS = since(began)
	}
	d.Source, d.SourceLine, d.Server, d.RCode, d.Servers = got.source, got.line, got.server, got.rcode, got.each
	d.Completed, d.Unanswered, d.Truncated, d.Rotates, d.Unset = got.whole, got.mute, got.cut, got.turns, got.unset
	d.BehindFile, d.Behind = got.file, got.behind
	if len(got.addrs) == 0 {
		c.stopped(ctx, phaseDNS, diag.DNSTimeout, got.word, got.err)
		return false
	}
	c.addrs = sixFirst(got.addrs)
	for _, a := range c.addrs {
		d.Addresses = append(d.Addresses, a.String())
	}
	return true
}

// withPort adds the port to a host without one.
func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// question is a DNS look-up: names to try in order, the servers, and the number of attempts.
type question struct {
	servers  []string // host:port
	names    []string // fully qualified
	exact    string   // the one among names that was asked for; the search list made the others of it
	timeout  time.Duration
	attempts int
	rotate   bool // each look-up of the host may begin with any of the servers
}

// weight orders the failures of a look-up: a missing answer outweighs a negative one, and "no address" outweighs "no
// such name".
func (f found) weight() int {
	switch f.word {
	case diag.OK:
		return 0
	case diag.DNSNXDomain:
		return 1
	case diag.DNSNoAnswer:
		return 2
	case diag.DNSRefused:
		return 3
	case diag.DNSServFail:
		return 4
	case diag.DNSTimeout:
		return 6
	case diag.HostExhausted:
		return 7 // no server was asked
	}
	return 5 // no way to the server
}

func worse(a, b found) found {
	if b.weight() > a.weight() {
		return b
	}
	return a
}

// ask does the look-up as the host would and, if p is configured so, queries each server separately at the same time.
func (q question) ask(ctx context.Context, p *Prober) found {
	each := p.askEach(ctx, q)
	got := q.askInOrder(ctx)
	if all := each(len(got.addrs) > 0); all != nil {
		got.each = all
	}
	got.turns = q.rotate
	return got
}

// askInOrder tries the names in order. If no server answers, it stops: the next name would fail as well.
func (q question) askInOrder(ctx context.Context) found {
	worst := found{source: sourceDNS}
	for _, name := range q.names {
		got := q.askName(ctx, name)
		if len(got.addrs) > 0 {
			if q.exact != "" && name != q.exact {
				got.whole = name
			}
			return got
		}
		worst = worse(worst, got)
		if got.word == diag.DNSTimeout || got.word == diag.HostExhausted || ctx.Err() != nil {
			break
		}
	}
	return worst
}

// askName queries server after server, attempts times, until one gives a final answer.
func (q question) askName(ctx context.Context, name string) found {
	var last found
	for range q.attempts {
		if q.rotate {
			got := q.askAll(ctx, name)
			if len(got.addrs) > 0 || got.word == diag.DNSNXDomain || got.word == diag.DNSNoAnswer || ctx.Err() != nil {
				return got
			}
			last = got
			continue
		}
		for _, server := range q.servers {
			one, cancel := context.WithTimeout(ctx, q.timeout)
			got := askBoth(one, server, name)
			cancel()
			switch {
			case len(got.addrs) > 0, got.word == diag.DNSNXDomain, got.word == diag.DNSNoAnswer:
				return got
			}
			last = worse(last, got)
			if ctx.Err() != nil {
				return last
			}
		}
	}
	return last
}

// askBoth queries one server for IPv4 and IPv6 addresses at once.
func askBoth(ctx context.Context, server, name string) found {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan found, 2)
	for _, kind := range [...]dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		go func() { results <- askOne(ctx, server, name, kind) }()
	}
	first := <-results
	if len(first.addrs) > 0 {
		stop := time.AfterFunc(measure.Briefly(ctx, familyGrace), cancel)
		defer stop.Stop()
	}
	second := <-results
	switch {
	case len(first.addrs) > 0:
		first.addrs = append(first.addrs, second.addrs...)
		if second.rcode == "" && !second.cut {
			first.mute = kindName(second.kind)
		}
		return first
	case len(second.addrs) > 0:
		return second
	}
	return worse(first, second)
}

// askOne sends one query. If the answer was truncated, it allows a large one over UDP, and then repeats it over TCP.
func askOne(ctx context.Context, server, name string, kind dnsmessage.Type) found {
	f := found{source: sourceDNS, server: server, kind: kind}
	var r reply
	q, err := nameQuestion(name, kind)
	if err == nil {
		r, err = exchangeDNS(ctx, "udp", server, q)
	}
	if err == nil && r.truncated {
		r = exchangeLarge(ctx, server, q, r)
	}
	if err == nil && r.truncated {
		if r, err = exchangeDNS(ctx, "tcp", server, q); err == nil && r.truncated {
			err = fmt.Errorf("%w: it is cut off over TCP as well", errDamaged)
		}
		if err != nil {
			f.cut, f.word, f.err = true, overTCPWord(ctx, err), fmt.Errorf("%s: %w", overUDP, err)
			return f
		}
	}
	if err != nil {
		f.word, f.err = dnsErrorWord(ctx, err), err
		return f
	}
	f.rcode = rcodeName(r.rcode)
	if r.rcode == dnsmessage.RCodeSuccess { // resolvers ignore addresses in a negative answer
		f.addrs = r.addrs
	}
	if len(f.addrs) == 0 {
		f.word = rcodeWord(r.rcode)
		f.err = fmt.Errorf("%s has no %s answer for %s: %s", server, kindName(kind), name, f.rcode)
	}
	return f
}

// dnsErrorWord returns the failure of a query without an answer.
func dnsErrorWord(ctx context.Context, err error) diag.Failure {
	word := errnoWord(err)
	switch {
	case errors.Is(err, errNoName):
		return noSuchName
	case word == diag.HostExhausted:
		return word // even if the time is up by now
	case timedOut(ctx, err), errors.Is(err, syscall.ETIMEDOUT):
		return diag.DNSTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return diag.DNSRefused // an ICMP error: nothing listens on the port
	case word != "":
		return word // no route to the server, or not allowed to query it
	}
	return diag.DNSServFail
}
