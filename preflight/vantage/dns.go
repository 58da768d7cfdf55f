package vantage

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/gpuaas/gpuaasctl/diag"
)

// dnsPayload is the maximum datagram that a server may send: the size that passes any network unfragmented (DNS flag
// day 2020).
const dnsPayload = 1232

// maxDNS bounds the addresses, the aliases and the extended errors that are kept of one server: an answer over TCP has
// room for thousands, and a report contains every server's answer.
const maxDNS = 32

// askServer queries one name server for both address families of a name, with EDNS, whose extended errors give the
// reason for a refusal. Only the operator's side uses it, so that the node's helper does not link the DNS library.
func askServer(ctx context.Context, server, name string) (diag.DNSAnswer, error) {
	type outcome struct {
		msg *dns.Msg
		err error
	}
	six := make(chan outcome, 1)
	go func() {
		msg, err := exchange(ctx, server, name, dns.TypeAAAA)
		six <- outcome{msg, err}
	}()
	msg, err := exchange(ctx, server, name, dns.TypeA)
	other := <-six
	var a diag.DNSAnswer
	for _, m := range [...]*dns.Msg{other.msg, msg} {
		if m != nil {
			addAnswer(&a, m, name)
		}
	}
	if a.RCode != "" {
		return a, nil
	}
	_, a.Truncated = errors.AsType[truncatedError](errors.Join(err, other.err))
	return a, errors.Join(err, other.err)
}

// exchange sends one query, and repeats it over TCP if the answer was truncated, and without EDNS if the server does
// not support it.
func exchange(ctx context.Context, server, name string, kind uint16) (*dns.Msg, error) {
	q := new(dns.Msg).SetQuestion(name, kind)
	q.SetEdns0(dnsPayload, false)
	r, err := send(ctx, "udp", server, q)
	if err == nil && (r.Rcode == dns.RcodeFormatError || r.Rcode == dns.RcodeNotImplemented) && r.IsEdns0() == nil {
		q.Extra = nil
		r, err = send(ctx, "udp", server, q)
	}
	if err == nil && r.Truncated {
		if r, err = send(ctx, "tcp", server, q); err == nil && r.Truncated {
			r, err = nil, errors.New("it is cut off over TCP as well")
		}
		if err != nil {
			err = truncatedError{err}
		}
	}
	return r, err
}

// truncatedError is the failure of a query over TCP after a truncated answer over UDP.
type truncatedError struct{ error }

func (e truncatedError) Unwrap() error { return e.error }

// send sends one query over a new connection, which ctx ends.
func send(ctx context.Context, network, server string, q *dns.Msg) (*dns.Msg, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	conn := &dns.Conn{Conn: raw, UDPSize: dnsPayload}
	if err := conn.WriteMsg(q); err != nil {
		return nil, err
	}
	for {
		r, err := conn.ReadMsg()
		if err == nil && (r.Id != q.Id || !r.Response) {
			continue // an answer to another question
		}
		if err != nil && r != nil && r.Truncated {
			err = nil // a truncated message may end anywhere
		}
		return r, err
	}
}

// addAnswer adds one family's answer. The resulting code is that of the family with addresses, else IPv4's.
func addAnswer(a *diag.DNSAnswer, m *dns.Msg, name string) {
	had := len(a.Addresses) > 0
	for _, rr := range m.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			addAddress(a, rr.A)
		case *dns.AAAA:
			addAddress(a, rr.AAAA)
		case *dns.CNAME:
		default:
			continue
		}
		if ttl := int64(rr.Header().Ttl); a.TTL == nil || ttl < *a.TTL {
			a.TTL = &ttl
		}
	}
	if chain := aliases(m.Answer, name); len(chain) > len(a.Aliases) {
		a.Aliases = chain
	}
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			e, is := o.(*dns.EDNS0_EDE)
			if is && len(a.Extended) < maxDNS && !slices.Contains(a.Extended, extended(e)) {
				a.Extended = append(a.Extended, extended(e))
			}
		}
	}
	if !had || m.Rcode == dns.RcodeSuccess {
		a.RCode = codeName(m.Rcode)
	}
}

// addAddress adds a record's address, if it has one.
func addAddress(a *diag.DNSAnswer, ip net.IP) {
	if addr, ok := netip.AddrFromSlice(ip); ok && len(a.Addresses) < maxDNS {
		a.Addresses = append(a.Addresses, addr.Unmap().String())
	}
}

// aliases follows the CNAMEs of an answer from name on, each once.
func aliases(records []dns.RR, name string) (chain []string) {
	next := map[string]string{}
	for _, rr := range records {
		if alias, is := rr.(*dns.CNAME); is {
			if from := strings.ToLower(alias.Hdr.Name); next[from] == "" {
				next[from] = alias.Target
			}
		}
	}
	for name = strings.ToLower(name); next[name] != "" && len(chain) < maxDNS; {
		target := next[name]
		delete(next, name)
		chain = append(chain, strings.TrimSuffix(target, "."))
		name = strings.ToLower(target)
	}
	return chain
}

// extended formats an extended DNS error: its number, its name, and the server's text.
func extended(e *dns.EDNS0_EDE) string {
	words := strconv.Itoa(int(e.InfoCode))
	if name := dns.ExtendedErrorCodeToString[e.InfoCode]; name != "" {
		words += " " + name
	}
	if e.ExtraText != "" {
		words += ": " + e.ExtraText
	}
	return words
}

func codeName(code int) string {
	if name := dns.RcodeToString[code]; name != "" {
		return name
	}
	return "RCODE" + strconv.Itoa(code)
}
