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

// A listener whose queue is full drops what would open a connection, and the kernel sends it again.
func TestSegmentsSentAgainAreCounted(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer file.Close()
	dialled := make(chan struct{}, 2)
	p := &Prober{Vantage: "operator", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled <- struct{}{}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	ask := func() diag.Fact {
		return p.Run(t.Context(), diag.Request{ID: "a", Op: diag.OpTCP, Target: l.Addr().String(), TimeoutMS: 20_000})
	}
	full := ask() // the one that the queue takes
	if full.TCP == nil || full.TCP.Resent == nil || *full.TCP.Resent != 0 {
		t.Fatalf("a connection that lost nothing: %+v", full)
	}
	<-dialled
	go func() {
		<-dialled
		time.Sleep(500 * time.Millisecond)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	f := ask()
	if f.Failure != diag.OK || f.TCP.Resent == nil || *f.TCP.Resent < 1 || f.DurationMS < 900 {
		t.Errorf("%s after %d ms, %+v", f.Failure, f.DurationMS, f.TCP)
	}
}
