package net

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/dnstest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestServersBehindAResolver: if a resolver on the host itself fails or is silent, the servers that it asks are asked,
// too; if it answers, they are not.
func TestServersBehindAResolver(t *testing.T) {
	tier.NeedsHost(t)
	good := kit.Zone(map[string][]string{"api.gpuaas.test.": {"10.1.1.1"}})
	for name, c := range map[string]struct {
		own, behind dns.HandlerFunc
		word        diag.Failure
		gives       int
	}{
		"it fails":           {kit.RCode(dns.RcodeServerFailure), good, diag.DNSServFail, 1},
		"it is silent":       {func(dns.ResponseWriter, *dns.Msg) {}, good, diag.DNSTimeout, 1},
		"so does the other":  {kit.RCode(dns.RcodeServerFailure), kit.RCode(dns.RcodeServerFailure), diag.DNSServFail, 0},
		"it works":           {good, good, diag.OK, -1},
		"it denies the name": {kit.Zone(nil), good, diag.DNSNXDomain, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProber(t)
			own, behind := dnstest.Serve(t, c.own), dnstest.Serve(t, c.behind)
			namesFrom(t, p, "", "nameserver "+own+"\noptions timeout:2 attempts:1\n", "hosts: files dns")
			file := filepath.Join(t.TempDir(), "resolv.conf")
			if err := os.WriteFile(file, []byte("nameserver "+own+"\nnameserver "+behind+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			p.names.behind = []string{filepath.Join(t.TempDir(), "none"), file}
			began := time.Now()
			f := kit.Run(kit.Patient(t), p, diag.Request{Op: diag.OpDNS, Target: "api.gpuaas.test", TimeoutMS: 60_000})
			d := f.DNS
			switch {
			case f.Failure != c.word || (len(d.Behind) > 0) != (c.gives >= 0):
				t.Errorf("%s: %+v after %s", f.Failure, d, time.Since(began))
			case c.gives >= 0 && (d.BehindFile != file || d.Behind[0].Server != behind ||
				len(d.Behind[0].Addresses) != c.gives):
				t.Errorf("%+v", d)
			}
		})
	}
	n := nameFiles{behind: []string{"/no/such/file"}}
	if _, got := n.serversBehind(resolvConf{servers: []string{"192.0.2.1:53"}}); got != nil {
		t.Errorf("servers behind a server elsewhere: %v", got)
	}
}
