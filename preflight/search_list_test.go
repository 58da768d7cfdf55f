package preflight

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestASearchListIsNamed: where the search list of resolv.conf led a look-up to another name, the finding says so and
// the steps repair it; a short name that the list is there to complete is no cause.
func TestASearchListIsNamed(t *testing.T) {
	completed := func(name, whole string, then func(*diag.Fact)) func(*diag.Fact) {
		return func(f *diag.Fact) {
			then(f)
			f.DNS = &diag.DNSFacts{Name: name, Completed: whole, Source: "dns", Server: "192.0.2.53:53",
				Addresses: []string{"203.0.113.9"}}
		}
	}
	const name, whole = "node-api.test", "node-api.test.corp.test."
	tls := func(word diag.Failure) func(*diag.Fact) {
		return func(f *diag.Fact) {
			failWith(word, "tls")(f)
			f.TLS = &diag.TLSFacts{Chain: []diag.CertInfo{{Subject: "CN=*.corp.test", Issuer: "CN=corp"}}}
		}
	}
	for what, c := range map[string]struct {
		step string
		do   func(*diag.Fact)
		says bool
	}{
		"the node connects to nothing": {reach, completed(name, whole, failWith(diag.TCPTimeout, "tcp")), true},
		"the node is refused":          {reach, completed(name, whole, failWith(diag.TCPRefused, "tcp")), true},
		"another server's certificate": {reach, completed(name, whole, tls(diag.TLSNameMismatch)), true},
		"the operator connects to nothing": {"control_plane_access/healthz", completed("api.test", whole,
			failWith(diag.TCPTimeout, "tcp")), true},
		"a name that no search list completed": {reach, completed(name, "", failWith(diag.TCPTimeout, "tcp")), false},
		"a short name": {reach, completed("api", "api.corp.test.", failWith(diag.TCPTimeout,
			"tcp")), false},
		"a request that passes": {reach, completed(name, whole, func(*diag.Fact) {}), false},
	} {
		t.Run(what, func(t *testing.T) {
			r := walkWith(t, answers{c.step: c.do})
			said := strings.Contains(describe(r),
				"the answer came for node-api.test.corp.test (search list of /etc/resolv.conf)")
			repair := strings.Contains(strings.Join(r.Verdict.Recovery, "\n"), "with a dot at its end")
			if said != c.says || repair != c.says {
				t.Errorf("said: %t, in the steps: %t, want %t\n%s\n%s", said, repair, c.says, describe(r),
					strings.Join(r.Verdict.Recovery, "\n"))
			}
		})
	}
}
