package net

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/dnstest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestEveryRCodeIsTold: every response code has the name that another library uses.
func TestEveryRCodeIsTold(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	for code := range 12 {
		f := run(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: dnstest.Serve(t, kit.RCode(code))})
		want := diag.DNSServFail
		switch code {
		case dns.RcodeSuccess:
			want = diag.DNSNoAnswer
		case dns.RcodeNameError:
			want = diag.DNSNXDomain
		case dns.RcodeRefused:
			want = diag.DNSRefused
		}
		name := dns.RcodeToString[code]
		if code == 11 {
			name = "DSOTYPENI"
		}
		if f.Failure != want || f.DNS.RCode != name {
			t.Errorf("code %d: %s, %s; want %s, %s", code, f.Failure, f.DNS.RCode, want, name)
		}
	}
	if got := rcodeName(13); got != "RCODE13" {
		t.Errorf("an unknown code is %s", got)
	}
}

// TestANoIsBelieved: a negative answer counts, whatever addresses accompany it, as in the C library and Go's resolver.
func TestANoIsBelieved(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	good := kit.Zone(map[string][]string{"api.gpuaas.test.": {"10.1.1.1"}})
	for code, want := range map[int]diag.Failure{dns.RcodeNameError: diag.DNSNXDomain,
		dns.RcodeServerFailure: diag.DNSServFail} {
		server := dnstest.Serve(t, func(w dns.ResponseWriter, q *dns.Msg) { good(recoded{w, code}, q) })
		f := run(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: server})
		if f.Failure != want || len(f.DNS.Addresses) > 0 {
			t.Errorf("%s: %s, %v; want %s", dns.RcodeToString[code], f.Failure, f.DNS.Addresses, want)
		}
	}
}

// TestCutOffForGood: an answer that is truncated even over TCP counts as missing, not as negative.
func TestCutOffForGood(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	server := dnstest.Serve(t, func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		r.Truncated = true
		_ = w.WriteMsg(r)
	})
	f := run(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: server})
	if f.Failure != diag.DNSServFail || !strings.Contains(f.Detail, "cut off") {
		t.Errorf("%s: %s", f.Failure, f.Detail)
	}
}

// recoded replaces the code of every answer.
type recoded struct {
	dns.ResponseWriter
	code int
}

func (r recoded) WriteMsg(m *dns.Msg) error {
	m.Rcode = r.code
	return r.ResponseWriter.WriteMsg(m)
}

// TestAnAliasHasItsAddresses: an alias's addresses are used, and records that were not queried are not.
func TestAnAliasHasItsAddresses(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	server := dnstest.Serve(t, func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		for _, line := range []string{
			"api.gpuaas.test. 1 IN CNAME edge.gpuaas.test.", `edge.gpuaas.test. 1 IN TXT "10.9.9.9"`,
			"edge.gpuaas.test. 1 IN A 10.1.1.1", "edge.gpuaas.test. 1 IN A 10.1.1.2", "edge.gpuaas.test. 1 IN AAAA fd00::1",
		} {
			rr, err := dns.NewRR(line)
			if err != nil {
				t.Error(err)
				return
			}
			if (rr.Header().Rrtype != dns.TypeA && rr.Header().Rrtype != dns.TypeAAAA) ||
				rr.Header().Rrtype == q.Question[0].Qtype {
				r.Answer = append(r.Answer, rr)
			}
		}
		r.Compress = true
		_ = w.WriteMsg(r)
	})
	f := run(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: server})
	if !f.Passed() || !slices.Equal(f.DNS.Addresses, []string{"fd00::1", "10.1.1.1", "10.1.1.2"}) {
		t.Errorf("%s %s %+v", f.Failure, f.Detail, f.DNS)
	}
}

// TestACutAnswerMayEndAnywhere: a truncated answer may end in the middle of a record, and is queried again over TCP.
func TestACutAnswerMayEndAnywhere(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	good := kit.Zone(map[string][]string{"api.gpuaas.test.": {"10.1.1.1"}})
	server := dnstest.Serve(t, func(w dns.ResponseWriter, q *dns.Msg) {
		if w.RemoteAddr().Network() == "tcp" {
			good(w, q)
			return
		}
		r := new(dns.Msg).SetReply(q)
		r.Truncated = true
		r.Answer = append(r.Answer,
			&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET},
				A: net.IPv4(10, 1, 1, 1)})
		b, err := r.Pack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = w.Write(b[:len(b)-3])
	})
	f := run(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: server})
	if !f.Passed() || !slices.Equal(f.DNS.Addresses, []string{"10.1.1.1"}) {
		t.Errorf("%s %s %+v", f.Failure, f.Detail, f.DNS)
	}
}

// TestANameThatTheDNSCannotHold: such a name does not exist; it is not a server failure.
func TestANameThatTheDNSCannotHold(t *testing.T) {
	for _, name := range []string{strings.Repeat("x", 64) + ".test", strings.Repeat("x.", 127) + "test", "a..test"} {
		got := question{servers: []string{"127.0.0.1:1"}, names: []string{name + "."}, timeout: time.Second,
			attempts: 1}.ask(context.Background(), &Prober{})
		if got.word != diag.DNSNXDomain || got.err == nil || !strings.Contains(got.err.Error(), errNoName.Error()) {
			t.Errorf("%s: %s, %v", name, got.word, got.err)
		}
	}
}

func TestResolvConf(t *testing.T) {
	for _, c := range []struct {
		text, name string
		servers    []string
		names      []string
		timeout    time.Duration
		attempts   int
	}{
		{"", "api.test", []string{"127.0.0.1:53"}, []string{"api.test."}, 5 * time.Second, 2},
		{"# nothing\n; here\nnameserver\n", "api", []string{"127.0.0.1:53"}, []string{"api."}, 5 * time.Second, 2},
		{"nameserver 10.0.0.1\nnameserver fd00::1\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n", "api.test.",
			[]string{"10.0.0.1:53", "[fd00::1]:53", "10.0.0.3:53"}, []string{"api.test."}, 5 * time.Second, 2},
		{"search a.test b.test.\n", "api", nil, []string{"api.a.test.", "api.b.test.", "api."}, 5 * time.Second, 2},
		{"search a.test\ndomain c.test d.test\n", "api.x", nil, []string{"api.x.", "api.x.c.test."}, 5 * time.Second, 2},
		{"search .\n", "api", nil, []string{"api."}, 5 * time.Second, 2},
		{"options ndots:2 timeout:99 attempts:0 rotate\nsearch a.test", "api.x", nil, []string{"api.x.a.test.", "api.x."},
			30 * time.Second, 1},
	} {
		path := filepath.Join(t.TempDir(), "resolv.conf")
		kit.WriteFile(t, path, c.text)
		conf, err := readResolvConf(path)
		if err != nil {
			t.Fatal(err)
		}
		if names := conf.names(c.name); !slices.Equal(names, c.names) || conf.timeout != c.timeout ||
			conf.attempts != c.attempts {
			t.Errorf("%q: %v %+v", c.text, names, conf)
		}
		if c.servers != nil && !slices.Equal(conf.servers, c.servers) {
			t.Errorf("%q: servers %v", c.text, conf.servers)
		}
	}
	if _, err := readResolvConf(t.TempDir()); err == nil {
		t.Error("a folder was read")
	}
	if conf, err := readResolvConf("/no/such/resolv.conf"); err != nil ||
		!slices.Equal(conf.servers, []string{"127.0.0.1:53"}) {
		t.Errorf("%+v, %v", conf, err)
	}
}

// FuzzParseReply: another library parses every message that this one does, with the same result.
func FuzzParseReply(f *testing.F) {
	q := dnsmessage.Question{Name: dnsmessage.MustNewName("api.gpuaas.test."), Type: dnsmessage.TypeA,
		Class: dnsmessage.ClassINET}
	seed := new(dns.Msg).SetQuestion("api.gpuaas.test.", dns.TypeA)
	seed.Response = true
	seed.Answer = append(seed.Answer,
		&dns.A{Hdr: dns.RR_Header{Name: "api.gpuaas.test.", Rrtype: dns.TypeA, Class: dns.ClassINET},
			A: net.IPv4(10, 1, 1, 1)})
	b, err := seed.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, msg []byte) {
		if len(msg) < 2 {
			t.Skip()
		}
		r, ours, err := parseReply(msg, uint16(msg[0])<<8|uint16(msg[1]), q)
		var other dns.Msg
		if err != nil || !ours || r.truncated || other.Unpack(msg) != nil {
			return
		}
		n := 0
		for _, rr := range other.Answer {
			if _, ok := rr.(*dns.A); ok {
				n++
			}
		}
		if n != len(r.addrs) {
			t.Errorf("%d addresses, %d in another library's eyes", len(r.addrs), n)
		}
	})
}
