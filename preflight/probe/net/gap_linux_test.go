package net

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestAnswerWhoseLargePacketsAreLost: on a path that drops large packets in one direction, the small ones behind them
// arrive. A server that is silent, or stops in the middle, leaves no gap.
func TestAnswerWhoseLargePacketsAreLost(t *testing.T) {
	tier.NeedsHost(t)
	kit.NeedsRoot(t)
	type dialled struct {
		conn net.Conn
		err  error
	}
	addresses, conns, over := make(chan string), make(chan dialled), make(chan struct{})
	serverAt := make(chan net.Listener, 1)
	serve := func() error { // sockets belong to the namespace of the thread that opens them
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		for _, args := range []string{"link set lo mtu 1500", "link set lo up"} {
			if err := exec.Command("ip", strings.Fields(args)...).Run(); err != nil {
				return err
			}
		}
		nft := exec.Command("nft", "-f", "-")
		nft.Stdin = strings.NewReader("table ip t { chain in { type filter hook input priority 0; " +
			"tcp sport 4443 ip length > 1000 drop; }; }\n")
		if err := nft.Run(); err != nil {
			return err
		}
		l, err := net.Listen("tcp", "127.0.0.1:4443")
		if err != nil {
			return err
		}
		serverAt <- l
		for a := range addresses {
			conn, err := net.Dial("tcp", a)
			conns <- dialled{conn, err}
		}
		return nil
	}
	go func() {
		defer close(serverAt)
		if err := onThread(serve); err != nil {
			t.Log(err)
		}
	}()
	defer close(addresses)
	l := <-serverAt
	if l == nil {
		t.Skip("needs nft, ip and a network namespace")
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, _ = w.Write([]byte(strings.Repeat("x", 4*1460+200)))
		case "/stops":
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			<-over
		case "/silent":
			<-over
		}
	}))
	s.Listener = l
	s.Start()
	defer s.Close()
	defer close(over)
	for path, want := range map[string]struct {
		gap, began bool
		word       diag.Failure
	}{"/large": {true, false, diag.HTTPTimeout}, "/stops": {false, true, diag.HTTPTimeout},
		"/silent": {false, false, diag.HTTPTimeout}, "/small": {false, false, diag.OK}} {
		p := newProber(t)
		p.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
			addresses <- address
			d := <-conns
			return d.conn, d.err
		}
		f := kit.Run(t.Context(), p, diag.Request{ID: "a", Op: diag.OpHTTP, Target: "http://127.0.0.1:4443" + path,
			TimeoutMS: 1500})
		if f.Failure != want.word || f.TCP == nil || f.TCP.Gap != want.gap || f.TCP.AnswerBegan != want.began {
			t.Errorf("%s: %s in %s, %+v: %s", path, f.Failure, f.Phase, f.TCP, f.Detail)
		}
	}
}
