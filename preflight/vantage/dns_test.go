package vantage

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
	"github.com/gpuaas/gpuaasctl/preflight/probe/measure"
	"github.com/gpuaas/gpuaasctl/tools/testkit/dnstest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// records answers each query with the records of its type, and the aliases.
func records(t *testing.T, code int, extended *dns.EDNS0_EDE, lines ...string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetRcode(q, code)
		for _, line := range lines {
			rr, err := dns.NewRR(line)
			if err != nil {
				t.Error(err)
				return
			}
			if kind := rr.Header().Rrtype; kind == q.Question[0].Qtype || kind == dns.TypeCNAME {
				r.Answer = append(r.Answer, rr)
			}
		}
		if opt := q.IsEdns0(); opt != nil && extended != nil {
			r.SetEdns0(dnsPayload, false)
			r.IsEdns0().Option = append(r.IsEdns0().Option, extended)
		}
		_ = w.WriteMsg(r)
	}
}

// TestEachServerIsAsked: the look-up itself uses the host's resolver, and every server is queried as well: addresses,
// aliases, TTL, and the reason for a refusal.
func TestEachServerIsAsked(t *testing.T) {
	tier.NeedsHost(t)
	good := records(t, dns.RcodeSuccess, nil, "api.gpuaas.test. 300 IN CNAME edge.gpuaas.test.",
		"edge.gpuaas.test. 60 IN CNAME e1.gpuaas.test.", "e1.gpuaas.test. 20 IN A 10.1.1.1",
		"e1.gpuaas.test. 90 IN AAAA fd00::1")
	why := &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeProhibited, ExtraText: "policy 7"}
	ttl := int64(20)
	whole := diag.DNSAnswer{RCode: "NOERROR", Addresses: []string{"fd00::1", "10.1.1.1"}, TTL: &ttl,
		Aliases: []string{"edge.gpuaas.test", "e1.gpuaas.test"}}
	for name, c := range map[string]struct {
		answer dns.HandlerFunc
		want   diag.DNSAnswer
		passes bool
	}{
		"an alias of an alias": {good, whole, true},
		"without EDNS": {func(w dns.ResponseWriter, q *dns.Msg) {
			if q.IsEdns0() != nil {
				_ = w.WriteMsg(new(dns.Msg).SetRcodeFormatError(q))
				return
			}
			good(w, q)
		}, whole, true},
		"cut off": {func(w dns.ResponseWriter, q *dns.Msg) {
			if w.RemoteAddr().Network() == "udp" {
				_ = w.WriteMsg(&dns.Msg{MsgHdr: dns.MsgHdr{Id: q.Id, Response: true, Truncated: true}, Question: q.Question})
				return
			}
			good(w, q)
		}, whole, true},
		"another's answer first": {func(w dns.ResponseWriter, q *dns.Msg) {
			spoof := new(dns.Msg).SetRcode(q, dns.RcodeNameError)
			spoof.Id++
			_ = w.WriteMsg(spoof)
			good(w, q)
		}, whole, true},
		"refused, and why": {records(t, dns.RcodeRefused, why),
			diag.DNSAnswer{RCode: "REFUSED", Extended: []string{"18 Prohibited: policy 7"}}, false},
		"an unknown code": {records(t, 13, nil), diag.DNSAnswer{RCode: "RCODE13"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := dnstest.Serve(t, c.answer)
			v := Operator(&probe.Prober{Start: time.Now()})
			defer v.Close()
			req := diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: server, TimeoutMS: 20_000}
			facts := v.Probe(measure.WithPatience(t.Context(), 100), []diag.Request{req})
			if facts[0].Passed() != c.passes || len(facts[0].DNS.Servers) != 1 {
				t.Fatalf("%s %s %+v", facts[0].Failure, facts[0].Detail, facts[0].DNS)
			}
			got := facts[0].DNS.Servers[0]
			if got.Server != server || got.Name != "api.gpuaas.test." || got.RCode != c.want.RCode || got.Failure != "" ||
				!slices.Equal(got.Addresses, c.want.Addresses) || !slices.Equal(got.Aliases, c.want.Aliases) ||
				!slices.Equal(got.Extended, c.want.Extended) || (got.TTL == nil) != (c.want.TTL == nil) ||
				(got.TTL != nil && *got.TTL != *c.want.TTL) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
			if again := v.Probe(t.Context(), []diag.Request{req})[0]; again.DNS.Servers != nil {
				t.Errorf("the same name is asked for again: %+v", again.DNS.Servers)
			}
		})
	}
}

// TestMuchIsSaid: however long a server's answer is, only what a person would read is kept.
func TestMuchIsSaid(t *testing.T) {
	tier.NeedsHost(t)
	many := func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		if w.LocalAddr().Network() == "udp" {
			r.Truncated = true
			_ = w.WriteMsg(r)
			return
		}
		name := q.Question[0].Name
		add := func(owner string, kind uint16, rr dns.RR) {
			*rr.Header() = dns.RR_Header{Name: owner, Rrtype: kind, Class: dns.ClassINET, Ttl: 1}
			r.Answer = append(r.Answer, rr)
		}
		r.Compress = true
		r.SetEdns0(dnsPayload, false)
		for i := range 900 {
			to := "a" + strconv.Itoa(i) + ".gpuaas.test."
			add(name, dns.TypeCNAME, &dns.CNAME{Target: to})
			name = to
			add(name, dns.TypeA, &dns.A{A: net.IPv4(10, 0, byte(i>>8), byte(i))})
			opt := r.IsEdns0()
			opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: uint16(i)})
		}
		_ = w.WriteMsg(r)
	}
	a, err := askServer(t.Context(), dnstest.Serve(t, many), "api.gpuaas.test.")
	if err != nil || len(a.Addresses) != maxDNS || len(a.Aliases) != maxDNS || len(a.Extended) != maxDNS {
		t.Errorf("%v: %d addresses, %d aliases, %d extended errors", err, len(a.Addresses), len(a.Aliases), len(a.Extended))
	}
}

// TestOddRecords: circular aliases, and a record without an address.
func TestOddRecords(t *testing.T) {
	alias := func(from, to string) dns.RR {
		return &dns.CNAME{Hdr: dns.RR_Header{Name: from, Rrtype: dns.TypeCNAME}, Target: to}
	}
	m := &dns.Msg{Answer: []dns.RR{alias("B.test.", "a.test."), alias("a.test.", "b.test."), &dns.A{},
		alias("x.test.", "x.test."), alias("b.test.", "c.test.")}}
	var a diag.DNSAnswer
	addAnswer(&a, m, "A.test.")
	if got := strings.Join(a.Aliases, " "); got != "b.test a.test" || len(a.Addresses) > 0 {
		t.Errorf("aliases %s, addresses %q", got, a.Addresses)
	}
}
