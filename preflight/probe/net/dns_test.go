package net

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/dnstest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

const hostsFile = `127.0.0.1 localhost
10.0.0.7	api.gpuaas.test  api # by hand
# BEGIN gpuaasctl lab
10.0.0.8 term.gpuaas.test
fd00::8  term.gpuaas.test
# END gpuaasctl lab
not-an-address x.test
10.0.0.9 Late.Test
`

func lookupWith(t *testing.T, req diag.Request, hosts, resolv, nsswitch string) diag.Fact {
	t.Helper()
	p := newProber(t)
	namesFrom(t, p, hosts, resolv, nsswitch)
	f := kit.Run(kit.Patient(t), p, req)
	if f.DNS == nil {
		t.Fatalf("no dns section: %+v", f)
	}
	f.DNS.SourceLine = strings.TrimPrefix(f.DNS.SourceLine, filepath.Dir(p.names.hosts))
	return f
}

func TestLookupSources(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	server := dnstest.Serve(t, kit.Zone(map[string][]string{
		"api.gpuaas.test.": {"10.1.1.1", "fd00::1"}, "node.lab.test.": {"10.1.1.2"}, "one.": {"10.1.1.3"},
	}))
	resolv := "nameserver " + server + "\nsearch lab.test\noptions timeout:30\n"
	for _, c := range []struct {
		name     string
		req      diag.Request
		nsswitch string
		want     diag.DNSFacts
	}{
		{"by hand", diag.Request{Target: "api.gpuaas.test"}, "hosts: files dns",
			diag.DNSFacts{Name: "api.gpuaas.test", Addresses: []string{"10.0.0.7"}, Source: "hosts_manual",
				SourceLine: "/hosts:2"}},
		{"managed", diag.Request{Target: "term.gpuaas.test"}, "hosts: files dns",
			diag.DNSFacts{Name: "term.gpuaas.test", Addresses: []string{"fd00::8", "10.0.0.8"}, Source: "hosts_managed",
				SourceLine: "/hosts:4"}},
		{"after the managed block, whatever the case", diag.Request{Target: "LATE.test"}, "",
			diag.DNSFacts{Name: "LATE.test", Addresses: []string{"10.0.0.9"}, Source: "hosts_manual", SourceLine: "/hosts:8"}},
		{"dns before files", diag.Request{Target: "api.gpuaas.test"}, "hosts: dns files",
			diag.DNSFacts{Name: "api.gpuaas.test", Addresses: []string{"fd00::1", "10.1.1.1"}, Source: "dns", Server: server,
				RCode: "NOERROR"}},
		{"files after a dns that does not know", diag.Request{Target: "late.test"}, "hosts: dns files",
			diag.DNSFacts{Name: "late.test", Addresses: []string{"10.0.0.9"}, Source: "hosts_manual", SourceLine: "/hosts:8"}},
		{"a final no", diag.Request{Target: "late.test"}, "hosts: dns [NOTFOUND=return] files",
			diag.DNSFacts{Name: "late.test", Source: "dns", Server: server, RCode: "NXDOMAIN"}},
		{"by the search list", diag.Request{Target: "node"}, "hosts: files dns",
			diag.DNSFacts{Name: "node", Addresses: []string{"10.1.1.2"}, Source: "dns", Server: server, RCode: "NOERROR",
				Completed: "node.lab.test."}},
		{"a short name that is whole", diag.Request{Target: "one"}, "hosts: files dns",
			diag.DNSFacts{Name: "one", Addresses: []string{"10.1.1.3"}, Source: "dns", Server: server, RCode: "NOERROR"}},
		{"files only", diag.Request{Target: "nowhere.test"}, "hosts: files", diag.DNSFacts{Name: "nowhere.test"}},
		{"a named server, past the hosts file", diag.Request{Target: "api.gpuaas.test", Resolver: server}, "hosts: files",
			diag.DNSFacts{Name: "api.gpuaas.test", Addresses: []string{"fd00::1", "10.1.1.1"}, Source: "dns", Server: server,
				RCode: "NOERROR"}},
		{"pinned", diag.Request{Target: "https://api.gpuaas.test:8443/x", Resolve: "10.9.9.9"}, "",
			diag.DNSFacts{Name: "api.gpuaas.test", Addresses: []string{"10.9.9.9"}, Source: "pinned"}},
		{"literal", diag.Request{Target: "[fd00::1]:443"}, "",
			diag.DNSFacts{Name: "fd00::1", Addresses: []string{"fd00::1"}, Source: "literal"}},
		{"literal without a port", diag.Request{Target: "fd00::1"}, "",
			diag.DNSFacts{Name: "fd00::1", Addresses: []string{"fd00::1"}, Source: "literal"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Op, c.req.TimeoutMS = diag.OpDNS, 60_000
			f := lookupWith(t, c.req, hostsFile, resolv, c.nsswitch)
			got := *f.DNS
			if asked := got.Source != "pinned" && got.Source != "literal"; asked != (got.DurationMS > 0) {
				t.Errorf("duration %d of source %s", got.DurationMS, got.Source)
			}
			got.DurationMS = 0
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if f.Passed() != (len(c.want.Addresses) > 0) {
				t.Errorf("failure %q: %s", f.Failure, f.Detail)
			}
		})
	}
}

// TestLookupByTheCLibrary: a source that only the C library supports is queried with getent, at its place in the order.
func TestLookupByTheCLibrary(t *testing.T) {
	kit.NoLeaks(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "getent")
	if err := os.WriteFile(script, []byte(`#!/bin/sh
test "$*" = "-s hosts:mdns4_minimal ahosts printer.local" || exit 2
echo "10.3.3.3      STREAM printer.local"
echo "10.3.3.3      DGRAM"
`), 0o755); err != nil {
		t.Fatal(err)
	}
	p := newProber(t)
	namesFrom(t, p, hostsFile, "", "hosts: files mdns4_minimal [NOTFOUND=return] dns")
	p.names.getent = script
	f := kit.Run(context.Background(), p, diag.Request{Op: diag.OpDNS, Target: "printer.local"})
	if !f.Passed() || f.DNS.Source != "nss" || !slices.Equal(f.DNS.Addresses, []string{"10.3.3.3"}) {
		t.Fatalf("%s %s %+v", f.Failure, f.Detail, f.DNS)
	}
	f = kit.Run(context.Background(), p, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test"})
	if f.DNS.Source != "hosts_manual" {
		t.Errorf("files come first: %+v", f.DNS)
	}
}

// TestLookupPrefersAnAnswer: one broken server, or one broken address family, does not hide a good answer.
func TestLookupPrefersAnAnswer(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	good := kit.Zone(map[string][]string{"api.gpuaas.test.": {"10.1.1.1"}})
	broken, healthy := dnstest.Serve(t, kit.RCode(dns.RcodeServerFailure)), dnstest.Serve(t, good)
	f := lookupWith(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", TimeoutMS: 60_000}, "",
		"nameserver "+broken+"\nnameserver "+healthy+"\n", "")
	if !f.Passed() || f.DNS.Server != healthy {
		t.Errorf("%s %+v", f.Failure, f.DNS)
	}

	halfDeaf := dnstest.Serve(t, func(w dns.ResponseWriter, q *dns.Msg) {
		if q.Question[0].Qtype == dns.TypeA {
			good(w, q)
		}
	})
	p := newProber(t)
	namesFrom(t, p, "", "nameserver "+halfDeaf+"\noptions timeout:30\n", "")
	began := time.Now()
	f = kit.Run(t.Context(), p, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", TimeoutMS: 60_000})
	if took := time.Since(began); !f.Passed() || took > 20*time.Second { // familyGrace, and not the server's 30 s
		t.Errorf("%s after %s: %s", f.Failure, took, f.Detail)
	}
}

func TestLookupRetriesAndFallsBackToTCP(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	var lostA, lostAAAA atomic.Bool
	lost := map[uint16]*atomic.Bool{dns.TypeA: &lostA, dns.TypeAAAA: &lostAAAA}
	good := kit.Zone(map[string][]string{"api.gpuaas.test.": {"10.1.1.1"}})
	server := dnstest.Serve(t, func(w dns.ResponseWriter, q *dns.Msg) {
		if w.RemoteAddr().Network() == "udp" {
			if !lost[q.Question[0].Qtype].Swap(true) { // the first query of each family
				return
			}
			_ = w.WriteMsg(&dns.Msg{MsgHdr: dns.MsgHdr{Id: q.Id, Response: true, Truncated: true}, Question: q.Question})
			return
		}
		good(w, q)
	})
	f := lookupWith(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", TimeoutMS: 60_000}, "",
		"nameserver "+server+"\noptions timeout:3 attempts:5\n", "")
	if !f.Passed() || !slices.Equal(f.DNS.Addresses, []string{"10.1.1.1"}) {
		t.Errorf("%s %s %+v", f.Failure, f.Detail, f.DNS)
	}
}

// TestWrongAnswersAreIgnored: an answer to another query is ignored.
func TestWrongAnswersAreIgnored(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	good := kit.Zone(map[string][]string{"api.gpuaas.test.": {"10.1.1.1"}})
	server := dnstest.Serve(t, func(w dns.ResponseWriter, q *dns.Msg) {
		spoof := new(dns.Msg).SetRcode(q, dns.RcodeNameError)
		spoof.Id++
		_ = w.WriteMsg(spoof)
		good(w, q)
	})
	f := lookupWith(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", Resolver: server}, "", "", "")
	if !f.Passed() {
		t.Errorf("%s %s", f.Failure, f.Detail)
	}
}

// TestEachServerByItself: all servers are queried at once. A silent one delays a successful look-up by no more than
// serverGrace, and a failing one by its timeout.
func TestEachServerByItself(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	good := dnstest.Serve(t, kit.Zone(map[string][]string{"api.gpuaas.test.": {"10.1.1.1"}}))
	ask := func(ctx context.Context, server, name string) (diag.DNSAnswer, error) {
		if server == good {
			return diag.DNSAnswer{RCode: "NOERROR", Extended: []string{"token=" + kit.Canary}}, nil
		}
		<-ctx.Done()
		return diag.DNSAnswer{}, ctx.Err()
	}
	silent := dnstest.Serve(t, func(dns.ResponseWriter, *dns.Msg) {})
	for _, c := range []struct {
		name    string
		target  string
		timeout string
		want    diag.DNSAnswer // answer of the silent server
	}{
		{"found", "api.gpuaas.test", "30", diag.DNSAnswer{Server: silent, Name: "api.gpuaas.test."}},
		{"not found", "no.gpuaas.test", "5",
			diag.DNSAnswer{Server: silent, Name: "no.gpuaas.test.", Failure: diag.DNSTimeout}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProber(t)
			p.AskServer = ask
			resolv := "nameserver " + good + "\nnameserver " + silent + "\noptions attempts:1 timeout:" + c.timeout + "\n"
			namesFrom(t, p, "", resolv, "hosts: files dns")
			f := kit.Run(context.Background(), p, diag.Request{Op: diag.OpDNS, Target: c.target, TimeoutMS: 60_000})
			if len(f.DNS.Servers) != 2 || f.DNS.Servers[0].Server != good || f.DNS.Servers[0].RCode != "NOERROR" {
				t.Fatalf("%s %s %+v", f.Failure, f.Detail, f.DNS)
			}
			if text := f.DNS.Servers[0].Extended[0]; strings.Contains(text, kit.Canary) {
				t.Errorf("a server's words are not scrubbed: %s", text)
			}
			got := f.DNS.Servers[1]
			if got.DurationMS = 0; !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestReadNSSwitch(t *testing.T) {
	for text, want := range map[string][]nameService{
		"":                             {{"files", false}, {"dns", false}},
		"passwd: files\n#hosts: nis\n": {{"files", false}, {"dns", false}},
		"hosts:\tfiles resolve [!UNAVAIL=return] myhostname dns # x": {
			{"files", false}, {"resolve", true}, {"myhostname", false}, {"dns", false},
		},
		"hosts: files [ NOTFOUND=return ] dns":                   {{"files", true}, {"dns", false}},
		"hosts: dns [!NOTFOUND=return] [UNAVAIL=continue] files": {{"dns", false}, {"files", false}},
	} {
		if got := readNSSwitch([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestSixFirst(t *testing.T) {
	var in []netip.Addr
	for _, s := range []string{"10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "10.0.0.2", "fd00::1"} {
		in = append(in, netip.MustParseAddr(s))
	}
	want := []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	if got := sixFirst(in); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func FuzzReadHosts(f *testing.F) {
	f.Add([]byte(hostsFile), "api.gpuaas.test")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		a := readHosts(text, name)
		if (len(a.addrs) == 0) != (a.line == 0) {
			t.Errorf("%d addresses on line %d", len(a.addrs), a.line)
		}
		readNSSwitch(text)
	})
}
