package net

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// twoFamilies returns a prober for which dual.test has an IPv6 and an IPv4 address; dial decides how they behave.
func twoFamilies(t *testing.T, dial func(ctx context.Context, six bool, address string) (net.Conn, error)) *Prober {
	p := newProber(t)
	namesFrom(t, p, "::1 dual.test\n127.0.0.1 dual.test\n", "", "hosts: files")
	p.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			t.Errorf("dialled %q", address)
		}
		return dial(ctx, host == "::1", address)
	}
	return p
}

func direct(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func errnoOf(e syscall.Errno) error { return os.NewSyscallError("connect", e) }

// TestBrokenFamily measures, in simulated time, how much a broken IPv6 delays a request that IPv4 serves at once.
func TestBrokenFamily(t *testing.T) {
	for name, c := range map[string]struct {
		six   func(ctx context.Context) error
		costs time.Duration
	}{
		"dead":    {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, fallbackDelay},
		"refused": {func(context.Context) error { return errnoOf(syscall.ECONNREFUSED) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := twoFamilies(t, func(ctx context.Context, six bool, address string) (net.Conn, error) {
					if six {
						return nil, c.six(ctx)
					}
					near, far := net.Pipe()
					t.Cleanup(func() { near.Close(); far.Close() })
					return near, nil
				})
				began := time.Now()
				f := kit.Run(t.Context(), p, diag.Request{Op: diag.OpTCP, Target: "dual.test:443", TimeoutMS: 5000})
				if took := time.Since(began); !f.Passed() || f.TCP.Remote != "127.0.0.1:443" || f.TCP.Local == "" ||
					took != c.costs {
					t.Errorf("%s %+v after %s", f.Failure, f.TCP, took)
				}
			})
		})
	}
}

// TestMissingFamilyIsNotTheFailure: the immediate error of a host without IPv6 is not why the connection failed.
func TestMissingFamilyIsNotTheFailure(t *testing.T) {
	kit.NoLeaks(t)
	p := twoFamilies(t, func(_ context.Context, six bool, _ string) (net.Conn, error) {
		if six {
			return nil, errnoOf(syscall.ENETUNREACH)
		}
		return nil, errnoOf(syscall.ECONNREFUSED)
	})
	f := kit.Run(context.Background(), p, diag.Request{Op: diag.OpTCP, Target: "dual.test:443"})
	if f.Failure != diag.TCPRefused || f.Errno != "ECONNREFUSED" || f.TCP.Remote != "127.0.0.1:443" {
		t.Errorf("%s %s %+v", f.Failure, f.Errno, f.TCP)
	}
}

// TestLateWinnersAreClosed: both families answer; one connection is used, the other is closed.
func TestLateWinnersAreClosed(t *testing.T) {
	tier.NeedsHost(t)
	kit.NoLeaks(t)
	_, port, _ := net.SplitHostPort(kit.ServeTCP(t, kit.UntilClosed))
	late := make(chan net.Conn, 1)
	p := twoFamilies(t, func(ctx context.Context, six bool, address string) (net.Conn, error) {
		conn, err := direct(context.WithoutCancel(ctx), "127.0.0.1:"+port)
		if six {
			time.Sleep(fallbackDelay + 50*time.Millisecond)
			late <- conn
		}
		return conn, err
	})
	f := kit.Run(context.Background(), p, diag.Request{Op: diag.OpTCP, Target: "dual.test:" + port})
	if !f.Passed() {
		t.Fatalf("%s: %s", f.Failure, f.Detail)
	}
	conn := <-late
	wait.For(t, "the connection that came too late is closed", func() bool {
		_, err := conn.Write([]byte("x"))
		return err != nil
	})
}
