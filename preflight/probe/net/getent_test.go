package net

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestALookUpByTheMachinesPrograms: one getent, which is bounded and is run only if nobody else can have put it there.
func TestALookUpByTheMachinesPrograms(t *testing.T) {
	tier.NeedsHost(t)
	for what, c := range map[string]struct {
		script    string
		mode      os.FileMode
		target    string
		word      diag.Failure
		addresses []string
		source    string
	}{
		"two addresses": {`test "$*" = "ahosts api.test" || exit 1
printf '10.1.1.1 STREAM api.test\n10.1.1.1 DGRAM\nfd00::1 STREAM\n'`, 0o755, "https://api.test:8443/x", diag.OK,
			[]string{"fd00::1", "10.1.1.1"}, "getent"},
		"no such name": {"exit 2", 0o755, "api.test", diag.DNSNXDomain, nil, "getent"},
		"no such database": {"echo Unknown database: ahosts >&2; exit 1", 0o755, "api.test", diag.Unsupported,
			nil, "getent"},
		"says nothing":        {"exit 0", 0o755, "api.test", diag.Unsupported, nil, "getent"},
		"says anything":       {"head -c 300000 /dev/zero", 0o755, "api.test", diag.Unsupported, nil, "getent"},
		"waits":               {"sleep 60", 0o755, "api.test", diag.DNSTimeout, nil, "getent"},
		"anybody's to change": {"echo 10.1.1.1", 0o777, "api.test", diag.Unsupported, nil, ""},
		"not there":           {"", 0, "api.test", diag.Unsupported, nil, ""},
		"an address":          {"exit 9", 0o755, "https://[fd00::7]/", diag.OK, []string{"fd00::7"}, "literal"},
	} {
		t.Run(what, func(t *testing.T) {
			kit.NoLeaks(t)
			p := newProber(t)
			p.names.getent = filepath.Join(t.TempDir(), "getent")
			if c.mode != 0 {
				if err := os.WriteFile(p.names.getent, []byte("#!/bin/sh\n"+c.script+"\n"), c.mode); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(p.names.getent, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			req := diag.Request{Op: diag.OpGetent, Target: c.target, TimeoutMS: 60_000}
			if c.word == diag.DNSTimeout {
				req.TimeoutMS = 200
			}
			f := kit.Run(t.Context(), p, req)
			if f.Failure != c.word || (f.DNS == nil) != (c.source == "") {
				t.Fatalf("%s (%s): %+v", f.Failure, f.Detail, f.DNS)
			}
			if f.DNS != nil && (!slices.Equal(f.DNS.Addresses, c.addresses) || f.DNS.Source != c.source ||
				(c.word == diag.DNSTimeout && f.DNS.DurationMS < 200)) {
				t.Errorf("%+v", f.DNS)
			}
		})
	}
}
