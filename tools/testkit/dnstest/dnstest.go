// Package dnstest is a DNS server in the test's own process. It is for tests only.
package dnstest

import (
	"net"
	"testing"

	"github.com/miekg/dns"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// Serve answers on one port of 127.0.0.1, over UDP and TCP, until the test ends. It returns the address, as host:port.
func Serve(t testing.TB, answer dns.HandlerFunc) string {
	t.Helper()
	tier.NeedsHost(t)
	var pc net.PacketConn
	var l net.Listener
	for tries := 0; l == nil; tries++ { // another program may use that port for TCP
		var err error
		if pc, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if l, err = net.Listen("tcp", pc.LocalAddr().String()); err != nil {
			_ = pc.Close()
			if tries > 100 {
				t.Fatal(err)
			}
		}
	}
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: answer}, {Listener: l, Handler: answer}} {
		started, ended := make(chan struct{}), make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { defer close(ended); _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown(); <-ended })
	}
	return pc.LocalAddr().String()
}
