package net

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// shape writes attempts in short: family, result.
func shape(f diag.Fact) string {
	var out []string
	if f.TCP == nil {
		return "no tcp"
	}
	for _, a := range f.TCP.Attempts {
		word := string(a.Failure)
		switch {
		case a.Connected:
			word = "connected"
		case word == "":
			word = "unanswered"
		}
		six := "4"
		if strings.HasPrefix(a.Remote, "[") {
			six = "6"
		}
		out = append(out, six+" "+word)
	}
	return strings.Join(out, ", ")
}

// TestAttempts: which addresses are dialled when, with which result, in simulated time. The agent's dialer waits 300 ms
// for the first family, however many addresses that has.
func TestAttempts(t *testing.T) {
	dead := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	fails := func(e syscall.Errno) func(context.Context) error {
		return func(context.Context) error { return errnoOf(e) }
	}
	good := func(context.Context) error { return nil }
	for name, c := range map[string]struct {
		hosts    string
		six, dot func(context.Context) error
		want     string
		costs    time.Duration
		word     diag.Failure
	}{
		"a black hole beside a good A": {"::1 x.test\n127.0.0.1 x.test\n", dead, good, "6 unanswered, 4 connected",
			fallbackDelay, ""},
		"two black holes": {"::1 x.test\n::2 x.test\n127.0.0.1 x.test\n", dead, good,
			"6 unanswered, 6 unanswered, 4 connected", fallbackDelay, ""},
		"a refusing AAAA": {"::1 x.test\n127.0.0.1 x.test\n", fails(syscall.ECONNREFUSED), good,
			"6 tcp_refused, 4 connected", 0, ""},
		"a host without IPv6": {"::1 x.test\n127.0.0.1 x.test\n", fails(syscall.ENETUNREACH), good,
			"6 tcp_net_unreachable, 4 connected", 0, ""},
		"a good AAAA beside a dead A": {"::1 x.test\n127.0.0.1 x.test\n", good, dead, "6 connected", 0, ""},
		"both dead": {"::1 x.test\n127.0.0.1 x.test\n", dead, dead,
			"6 tcp_timeout, 4 tcp_timeout", 5 * time.Second, diag.TCPTimeout},
		"both refuse": {"::1 x.test\n127.0.0.1 x.test\n", fails(syscall.ECONNREFUSED),
			fails(syscall.ECONNREFUSED), "6 tcp_refused, 4 tcp_refused", 0, diag.TCPRefused},
		"IPv6 only, on a host without": {"2001:db8::1 x.test\n2001:db8::2 x.test\n", fails(syscall.ENETUNREACH),
			nil, "6 tcp_net_unreachable, 6 tcp_net_unreachable", 0, diag.TCPNetUnreachable},
		"one address says it by itself": {"127.0.0.1 x.test\n", nil, good, "", 0, ""},
		"more addresses than are listed": {manyHosts(20), dead, nil,
			strings.TrimSuffix(strings.Repeat("6 tcp_timeout, ", diag.MaxAttempts), ", "), 5 * time.Second, diag.TCPTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProber(t)
				namesFrom(t, p, c.hosts, "", "hosts: files")
				p.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
					does := c.dot
					if strings.HasPrefix(address, "[") {
						does = c.six
					}
					if err := does(ctx); err != nil {
						return nil, err
					}
					near, far := net.Pipe()
					t.Cleanup(func() { near.Close(); far.Close() })
					return near, nil
				}
				began := time.Now()
				f := kit.Run(t.Context(), p, diag.Request{Op: diag.OpTCP, Target: "x.test:443", TimeoutMS: 5000})
				if took := time.Since(began); f.Failure != c.word || shape(f) != c.want || took != c.costs {
					t.Errorf("%q, %s after %s", shape(f), f.Failure, took)
				}
			})
		})
	}
}

// TestNothingIsDialledTooLate: if the time is up before the first address is dialled, that is the failure.
func TestNothingIsDialledTooLate(t *testing.T) {
	for name, c := range map[string]struct {
		late func(context.Context) (context.Context, context.CancelFunc)
		word diag.Failure
	}{
		"cancelled": {context.WithCancel, diag.Cancelled},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithDeadline(ctx, time.Now().Add(-time.Second))
		}, diag.TCPTimeout},
	} {
		ctx, cancel := c.late(t.Context())
		cancel()
		p := newProber(t)
		f := diag.Fact{}
		exchange := p.newExchange(diag.Request{Op: diag.OpTCP, Target: "127.0.0.1:1"}, &f)
		exchange.addrs = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		if exchange.connect(ctx) || f.Failure != c.word || f.TCP.Remote != "127.0.0.1:1" {
			t.Errorf("%s: %s in %s, %+v", name, f.Failure, f.Phase, f.TCP)
		}
	}
}

func manyHosts(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("2001:db8::" + strconv.Itoa(i+1) + " x.test\n")
	}
	return b.String()
}

// bothOn returns a port on which ::1 and 127.0.0.1 behave differently: "good" listens, "deaf" has a full backlog, so
// that the kernel does not answer, "" refuses.
func bothOn(t *testing.T, six, four string) (port string) {
	t.Helper()
	tier.NeedsHost(t)
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		n := ln.Addr().(*net.TCPAddr).Port
		ln.Close() // another test may take the port before we do
		if listenAs(t, syscall.AF_INET, n, four) && listenAs(t, syscall.AF_INET6, n, six) {
			return strconv.Itoa(n)
		}
	}
	t.Fatal("no port is free in both families")
	return ""
}

func listenAs(t *testing.T, domain, port int, how string) bool {
	t.Helper()
	tier.NeedsHost(t)
	fd, err := syscall.Socket(domain, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("skipped: this kernel has no such family: %v", err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	var sa syscall.Sockaddr = &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}
	address := "127.0.0.1:" + strconv.Itoa(port)
	if domain == syscall.AF_INET6 {
		sa = &syscall.SockaddrInet6{Addr: [16]byte(net.IPv6loopback), Port: port}
		address = "[::1]:" + strconv.Itoa(port)
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 1); err != nil {
			t.Fatal(err)
		}
	}
	switch err := syscall.Bind(fd, sa); {
	case err == syscall.EADDRNOTAVAIL:
		t.Skip("skipped: this host has no ::1")
	case err != nil:
		return false
	}
	if how == "" { // the port has no listener
		return true
	}
	backlog := 64
	if how == "deaf" {
		backlog = 0
	}
	if err := syscall.Listen(fd, backlog); err != nil {
		t.Fatal(err)
	}
	if how != "deaf" {
		return true
	}
	for range 16 {
		conn, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return true
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the backlog does not fill up")
	return false
}

// TestFamiliesOfThisKernel uses real sockets of both families.
func TestFamiliesOfThisKernel(t *testing.T) {
	for name, c := range map[string]struct{ six, four, want, pinned string }{
		"a black hole beside a good A": {"deaf", "good", "6 unanswered, 4 connected", "tcp_timeout"},
		"a refusing AAAA":              {"", "good", "6 tcp_refused, 4 connected", "tcp_refused"},
		"a good AAAA beside a dead A":  {"good", "deaf", "6 connected", ""},
		"both":                         {"good", "good", "6 connected", ""},
	} {
		t.Run(name, func(t *testing.T) {
			port := bothOn(t, c.six, c.four)
			p := newProber(t)
			namesFrom(t, p, "::1 dual.test\n127.0.0.1 dual.test\n", "", "hosts: files")
			req := diag.Request{Op: diag.OpTCP, Target: "dual.test:" + port, TimeoutMS: 60_000}
			// On a busy machine, even a prompt answer of the first address may arrive after its head start.
			f := kit.Retry(func() diag.Fact { return kit.Run(t.Context(), p, req) },
				func(f diag.Fact) bool { return shape(f) == c.want })
			if !f.Passed() || shape(f) != c.want {
				t.Errorf("%s: %q", f.Failure, shape(f))
			}
			if c.six == "deaf" && (f.TCP.DurationMS < 250 || f.TCP.Attempts[1].AfterMS < 250) {
				t.Errorf("it cost %d ms: %+v", f.TCP.DurationMS, f.TCP.Attempts)
			}
			if req.Resolve = "::1"; c.six == "deaf" {
				req.TimeoutMS = 800
			}
			if k := kit.Run(t.Context(), p, req); string(k.Failure) != c.pinned || len(k.TCP.Attempts) > 0 {
				t.Errorf("pinned: %s %+v", k.Failure, k.TCP)
			}
		})
	}
}

// TestIPv6OnlyWithoutARoute dials an IPv6 address in a network namespace without routes.
func TestIPv6OnlyWithoutARoute(t *testing.T) {
	tier.NeedsHost(t)
	const inside = "GPUAASCTL_TEST_NO_ROUTE"
	if os.Getenv(inside) == "" {
		if os.Geteuid() != 0 {
			t.Skip("skipped: needs root")
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestIPv6OnlyWithoutARoute$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("in a namespace of its own: %v\n%s", err, out)
		}
		return
	}
	p := newProber(t)
	namesFrom(t, p, "2001:db8::1 six.test\n", "", "hosts: files")
	f := kit.Run(t.Context(), p, diag.Request{Op: diag.OpTCP, Target: "six.test:443", TimeoutMS: 60_000})
	if f.Failure != diag.TCPNetUnreachable || f.TCP.Remote != "[2001:db8::1]:443" {
		t.Errorf("%s %s %+v", f.Failure, f.Errno, f.TCP)
	}
}
