package net

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	kit "github.com/gpuaas/gpuaasctl/preflight/probe/probetest"
)

// TestNamesAloneAreKept: a field of names never contains values, wherever its path leads.
func TestNamesAloneAreKept(t *testing.T) {
	for body, want := range map[string]string{
		`{"h":["Host","X-Forwarded-User"]}`:                   `["Host","X-Forwarded-User"]`,
		`{"h":{"Cookie":"canary"}}`:                           "",
		`{"h":["session=canary"]}`:                            "",
		`{"h":["eyJhbGciOi.canary.sig"]}`:                     "",
		`{"h":"Cookie: canary"}`:                              "",
		`{"h":[]}`:                                            "[]",
		`{"h":[["Cookie","canary"]]}`:                         "",
		`{"h":["canary-canary-canary-canary-canary-canary"]}`: "",
	} {
		ca := kit.NewAuthority(t, "ca")
		s := kit.Site(t, ca.Leaf(t, kit.Leaf{}), kit.Page(200, kit.JSONType, body))
		f := run(t, diag.Request{Op: diag.OpHTTP, Target: s.URL, CAInline: ca.PEM, TimeoutMS: 60_000,
			Extract: map[string]string{"app.header_names": "h"}})
		if got := f.HTTP.Fields["app.header_names"]; !f.Passed() || got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}
