package probe

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// twoFamilies is a prober that knows dual.test under an IPv6 and an IPv4 address; dial decides what they do.
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

func TestDeadFamilyCostsOneStagger(t *testing.T) {
	noLeaks(t)
	_, port, _ := net.SplitHostPort(wired(t, untilClosed))
	p := twoFamilies(t, func(ctx context.Context, six bool, address string) (net.Conn, error) {
		if six {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return direct(ctx, address)
	})
	began := time.Now()
	f := p.Run(context.Background(), diag.Request{Op: diag.OpTCP, Target: "dual.test:" + port, TimeoutMS: 5000})
	if !f.Passed() || f.TCP.Remote != "127.0.0.1:"+port || f.TCP.Local == "" || time.Since(began) > 5*stagger {
		t.Errorf("%s %+v after %s", f.Failure, f.TCP, time.Since(began))
	}
}

func TestRefusedFamilyCostsNothing(t *testing.T) {
	noLeaks(t)
	_, port, _ := net.SplitHostPort(wired(t, untilClosed))
	p := twoFamilies(t, func(ctx context.Context, six bool, address string) (net.Conn, error) {
		if six {
			return nil, errnoOf(syscall.ECONNREFUSED)
		}
		return direct(ctx, address)
	})
	began := time.Now()
	f := p.Run(context.Background(), diag.Request{Op: diag.OpTCP, Target: "dual.test:" + port})
	if !f.Passed() || time.Since(began) > stagger {
		t.Errorf("%s %+v after %s", f.Failure, f.TCP, time.Since(began))
	}
}

// TestMissingFamilyIsNotTheFailure: a host without IPv6 says so at once, and that is not why the connection failed.
func TestMissingFamilyIsNotTheFailure(t *testing.T) {
	noLeaks(t)
	p := twoFamilies(t, func(_ context.Context, six bool, _ string) (net.Conn, error) {
		if six {
			return nil, errnoOf(syscall.ENETUNREACH)
		}
		return nil, errnoOf(syscall.ECONNREFUSED)
	})
	f := p.Run(context.Background(), diag.Request{Op: diag.OpTCP, Target: "dual.test:443"})
	if f.Failure != diag.TCPRefused || f.Errno != "ECONNREFUSED" || f.TCP.Remote != "127.0.0.1:443" {
		t.Errorf("%s %s %+v", f.Failure, f.Errno, f.TCP)
	}
}

// TestLateWinnersAreClosed: both families answer, one connection is used, the other ends.
func TestLateWinnersAreClosed(t *testing.T) {
	noLeaks(t)
	_, port, _ := net.SplitHostPort(wired(t, untilClosed))
	late := make(chan net.Conn, 1)
	p := twoFamilies(t, func(ctx context.Context, six bool, address string) (net.Conn, error) {
		conn, err := direct(context.WithoutCancel(ctx), "127.0.0.1:"+port)
		if six {
			time.Sleep(stagger + 50*time.Millisecond)
			late <- conn
		}
		return conn, err
	})
	f := p.Run(context.Background(), diag.Request{Op: diag.OpTCP, Target: "dual.test:" + port})
	if !f.Passed() {
		t.Fatalf("%s: %s", f.Failure, f.Detail)
	}
	if _, err := (<-late).Write([]byte("x")); err == nil {
		t.Error("the connection that came too late is still open")
	}
}
