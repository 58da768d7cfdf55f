package net

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/dnstest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// udpOnly serves DNS over UDP with every answer truncated, except to those who allow large ones if it gives them. Over
// TCP it resets or ends the connection, is silent, or does not listen.
func udpOnly(t *testing.T, overTCP string, large bool) string {
	t.Helper()
	tier.NeedsHost(t)
	var pc net.PacketConn
	var l net.Listener
	for l == nil { // another program may use that port for TCP
		var err error
		if pc, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if l, err = net.Listen("tcp", pc.LocalAddr().String()); err != nil {
			_ = pc.Close()
		}
	}
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		switch o := q.IsEdns0(); {
		case large && o != nil && o.UDPSize() > dns.MinMsgSize && q.Question[0].Qtype == dns.TypeA:
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA,
				Class: dns.ClassINET}, A: net.IPv4(10, 1, 1, 1)})
		case !large || q.Question[0].Qtype == dns.TypeA:
			m.Truncated = true
		}
		_ = w.WriteMsg(m)
	})}
	started := make(chan struct{})
	s.NotifyStartedFunc = func() { close(started) }
	go func() { _ = s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = s.Shutdown() })
	if overTCP == "refused" {
		_ = l.Close()
		return pc.LocalAddr().String()
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if overTCP == "ended" { // with an end of stream: what was sent has been read
				_, _ = c.Read(make([]byte, 512))
			}
			if overTCP != "silent" { // a close with unread bytes is a reset
				_ = c.Close()
				continue
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return pc.LocalAddr().String()
}

// TestTruncatedAnswer: a server that truncates its answer and does not serve TCP has not failed to resolve the name.
func TestTruncatedAnswer(t *testing.T) {
	for overTCP, want := range map[string]diag.Failure{"refused": diag.DNSRefused, "reset": diag.DNSRefused,
		"ended": diag.DNSRefused, "silent": diag.DNSTimeout} {
		server := udpOnly(t, overTCP, false)
		for _, req := range []diag.Request{{}, {Resolver: server}} {
			req.Op, req.Target, req.TimeoutMS = diag.OpDNS, "api.gpuaas.test", 60_000
			f := lookupWith(t, req, "", "nameserver "+server+"\noptions timeout:1 attempts:1\n", "hosts: files dns")
			if f.Failure != want || !f.DNS.Truncated || !strings.Contains(f.Detail, "over UDP is truncated, and over TCP") {
				t.Errorf("%s: %s %+v: %s", overTCP, f.Failure, f.DNS, f.Detail)
			}
		}
	}
}

// TestLargeAnswer: a name whose answer needs TCP or EDNS is found without TCP, as by the agent.
func TestLargeAnswer(t *testing.T) {
	server := udpOnly(t, "silent", true)
	f := lookupWith(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", TimeoutMS: 60_000}, "",
		"nameserver "+server+"\noptions timeout:1 attempts:1\n", "hosts: files dns")
	if !f.Passed() || !slices.Equal(f.DNS.Addresses, []string{"10.1.1.1"}) || f.DNS.Truncated {
		t.Errorf("%s %+v: %s", f.Failure, f.DNS, f.Detail)
	}
}

// TestServersThatTakeTurns: with options rotate, one server that denies the name does not decide a look-up by chance,
// and each server's answer is kept. A server that fails is passed over by resolvers.
func TestServersThatTakeTurns(t *testing.T) {
	tier.NeedsHost(t)
	good := dnstest.Serve(t, kit.Zone(map[string][]string{"api.gpuaas.test.": {"10.1.1.1"}}))
	for name, other := range map[string]dns.HandlerFunc{"denies": kit.Zone(nil),
		"fails": kit.RCode(dns.RcodeServerFailure)} {
		bad := dnstest.Serve(t, other)
		for _, servers := range [][]string{{good, bad}, {bad, good}} {
			resolv := "nameserver " + servers[0] + "\nnameserver " + servers[1] + "\noptions rotate timeout:5\n"
			p := newProber(t)
			namesFrom(t, p, "", resolv, "hosts: files dns")
			for range 3 {
				f := kit.Run(kit.Patient(t), p, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", TimeoutMS: 60_000})
				denied := slices.ContainsFunc(f.DNS.Servers, func(a diag.DNSAnswer) bool { return a.Denies() })
				if !f.Passed() || f.DNS.Server != good || !f.DNS.Rotates || len(f.DNS.Servers) != 2 ||
					denied != (name == "denies") {
					t.Errorf("%s, %v: %s %+v", name, servers, f.Failure, f.DNS)
				}
			}
		}
	}
	// Without rotate, the first server's answer is the host's, and the others' are kept beside it.
	bad := dnstest.Serve(t, kit.Zone(nil))
	f := lookupWith(t, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", TimeoutMS: 60_000}, "",
		"nameserver "+bad+"\nnameserver "+good+"\n", "hosts: files dns")
	if f.Failure != diag.DNSNXDomain || f.DNS.Rotates || len(f.DNS.Servers) != 2 ||
		!slices.Equal(f.DNS.Servers[1].Addresses, []string{"10.1.1.1"}) {
		t.Errorf("%s %+v", f.Failure, f.DNS)
	}
}
