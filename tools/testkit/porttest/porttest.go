// Package porttest gives tests ports of 127.0.0.1 on which nothing listens. A port that was closed a moment ago is no
// substitute: another test may get it. It is for tests only.
package porttest

import (
	"net"
	"syscall"
	"testing"
)

// TCP returns an address that refuses connections until the test ends: its port is bound, so no other program gets it,
// and nothing listens on it.
func TCP(t testing.TB) string {
	t.Helper()
	_, addr := bind(t, syscall.SOCK_STREAM)
	return addr
}

// Keep makes the address of a listener that was just closed refuse connections until the test ends: it binds the port,
// so no other program gets it.
func Keep(t testing.TB, address string) {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	// Connections that the listener had may be in TIME_WAIT.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, loopback(a.Port)); err != nil {
		t.Logf("%s is in use already: %v", address, err)
	}
}

// UDP returns an address whose datagrams are answered by "port unreachable" until the test ends: its port belongs to a
// socket that is connected to another peer.
func UDP(t testing.TB) string {
	t.Helper()
	fd, addr := bind(t, syscall.SOCK_DGRAM)
	if err := syscall.Connect(fd, loopback(9)); err != nil {
		t.Fatal(err)
	}
	return addr
}

func loopback(port int) *syscall.SockaddrInet4 {
	return &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port}
}

func bind(t testing.TB, kind int) (fd int, addr string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, kind, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, loopback(0)); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	four, ok := sa.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("bound to %+v", sa)
	}
	return fd, (&net.TCPAddr{IP: four.Addr[:], Port: four.Port}).String()
}
