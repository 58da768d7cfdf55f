package porttest

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestRefused: the port has no listener, and no other program can get it: it is outside the range from which the kernel
// chooses.
func TestRefused(t *testing.T) {
	tier.NeedsHost(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(far.Close(), near.Close(), ln.Close()); err != nil { // far is now in TIME_WAIT
		t.Fatal(err)
	}
	Keep(t, ln.Addr().String())
	kept, own := ln.Addr().String(), TCP(t)
	for _, address := range []string{own, kept} {
		if c, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a connection to %s: %v, %v", address, c, err)
		}
	}
	if ln, err := net.Listen("tcp", own); err == nil {
		t.Errorf("another one listens at %s: %v", own, ln.Close())
	}
}
