package render

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/internal/page"
)

// TestEachNameServer: each name server's answer is one line, and its text cannot control a terminal.
func TestEachNameServer(t *testing.T) {
	ttl := int64(20)
	f := diag.Fact{Request: diag.Request{Op: diag.OpDNS}, DNS: &diag.DNSFacts{Name: "api.gpuaas.test",
		Servers: []diag.DNSAnswer{
			{Server: "10.0.0.1:53", RCode: "NOERROR", Addresses: []string{"10.1.1.1"}, Aliases: []string{"a.test", "b.test"},
				TTL: &ttl},
			{Server: "10.0.0.2:53", RCode: "REFUSED", Extended: []string{"18 Prohibited: \x1b[2Jpolicy"}, DurationMS: 3},
			{Server: "10.0.0.3:53", Failure: diag.DNSTimeout},
			{Server: "10.0.0.4:53"},
		}}}
	want := []string{"dns api.gpuaas.test",
		"  server 10.0.0.1:53, NOERROR, 10.1.1.1, by way of a.test, b.test, for 20 s",
		"  server 10.0.0.2:53, REFUSED, 18 Prohibited: " + page.Clean("\x1b[2Jpolicy") + ", 3 ms",
		"  server 10.0.0.3:53, dns_timeout", "  server 10.0.0.4:53, no answer by then"}
	if got := strings.Join(Detail(&f), "\n"); got != strings.Join(want, "\n") || strings.Contains(got, "\x1b") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
