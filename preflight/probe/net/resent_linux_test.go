package net

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

// A listener with a full queue drops SYN segments, which the kernel sends again.
func TestSegmentsSentAgainAreCounted(t *testing.T) {
	tier.NeedsHost(t)
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
	p := &Prober{}
	ask := func() diag.Fact {
		return kit.Run(t.Context(), p, diag.Request{ID: "a", Op: diag.OpTCP, Target: l.Addr().String(), TimeoutMS: 60_000})
	}
	full := ask() // the connection for which the queue has room
	if full.TCP == nil || full.TCP.Resent == nil || *full.TCP.Resent != 0 {
		t.Fatalf("a connection that lost nothing: %+v", full)
	}
	go func() {
		awaitResent(t, l.Addr().(*net.TCPAddr).Port)
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

// A silent server's kernel has acknowledged everything, so nothing was retransmitted. The count is known even if the
// request's timeout closed its connection, during the handshake or after it.
func TestSilentServerLosesNothing(t *testing.T) {
	tier.NeedsHost(t)
	// Nobody accepts the connections in its queue, as for a stopped process.
	stopped, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	over := make(chan struct{})
	slow := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer slow.Close()
	defer close(over)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: slow.Certificate().Raw})
	p := &Prober{}
	defer p.Close()
	for _, tc := range []struct {
		op         diag.Op
		url, phase string
	}{
		{diag.OpTLS, "https://" + stopped.Addr().String(), "tls"}, {diag.OpHTTP, "https://" + stopped.Addr().String(), "tls"},
		{diag.OpHTTP, slow.URL, "http"}, {diag.OpWS, slow.URL, "ws"},
	} {
		var f diag.Fact
		for ms := int64(300); ms < 60_000 && f.Phase != tc.phase; ms *= 2 { // a busy machine reaches that phase later
			f = kit.Run(t.Context(), p, diag.Request{ID: "a", Op: tc.op, Target: tc.url, CAInline: string(ca), TimeoutMS: ms})
		}
		if !f.Failure.Silent() || f.Phase != tc.phase || f.TCP == nil || f.TCP.Resent == nil || *f.TCP.Resent != 0 {
			t.Errorf("%s %s: %s in phase %q, %+v: %s", tc.op, tc.url, f.Failure, f.Phase, f.TCP, f.Detail)
		}
	}
}

// awaitResent waits until the kernel has retransmitted a SYN to this port of 127.0.0.1.
func awaitResent(t *testing.T, port int) {
	const remote, state, resent, synSent = 2, 3, 6, "02"
	to := fmt.Sprintf("0100007F:%04X", port)
	if !wait.Until(t, func() bool {
		text, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			t.Error(err)
			return true
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > resent && f[remote] == to && f[state] == synSent && f[resent] != "00000000" {
				return true
			}
		}
		return false
	}) {
		t.Error("nothing was sent again")
	}
}
