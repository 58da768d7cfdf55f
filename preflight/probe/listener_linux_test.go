package probe

import (
	"net"
	"os"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestListener: a connection to this machine shows whose port it reached.
func TestListener(t *testing.T) {
	tier.NeedsHost(t)
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		ln, err := net.Listen("tcp", at)
		if err != nil {
			t.Skip("no such address here: ", err)
		}
		defer ln.Close()
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		target := net.JoinHostPort("127.0.0.1", port)
		if at == "[::1]:0" {
			target = ln.Addr().String()
		}
		f := (&Prober{}).Run(t.Context(), diag.Request{Op: diag.OpTCP, Target: target})
		if f.Failure != diag.OK || f.TCP.Listener == nil || f.TCP.Listener.PID != os.Getpid() || f.TCP.Listener.Name == "" {
			t.Errorf("%s: %q %s %+v", at, f.Failure, f.Detail, f.TCP)
		}
	}
}
