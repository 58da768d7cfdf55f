package preflight

import (
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/hops"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/verdict"
	"github.com/gpuaas/gpuaasctl/profile"
)

// TestPinIsOfTheEndpoint: one name may have two listeners at two addresses, and the endpoint decides which one is
// pinned.
func TestPinIsOfTheEndpoint(t *testing.T) {
	e := &hop.Env{Profile: profile.Profile{
		TerminalBase: "https://term.test", TerminalResolveAddress: "192.0.2.1",
		NodeTerminalURL: "https://term.test:18443", NodeTerminalResolveAddress: "192.0.2.2",
		APIBase: "https://api.test", // nothing is known of it
	}}
	for target, want := range map[string]string{
		"https://term.test/healthz":               "192.0.2.1",
		"wss://term.test/v1/terminal/s":           "192.0.2.1",
		"https://term.test:18443/internal/v1/x":   "192.0.2.2",
		"https://term.test:9999/another-listener": "192.0.2.2",
		"https://api.test/healthz":                "",
		"https://other.test/":                     "",
		"":                                        "",
	} {
		for range 20 {
			if got := reading.PinFor(e, &diag.Fact{Request: diag.Request{Target: target}}); got != want {
				t.Fatalf("%q is pinned to %q, want %q", target, got, want)
			}
		}
	}
}

// TestPlaceholdersAreTheProfiles: a command to paste names this node's files, not the default ones.
func TestPlaceholdersAreTheProfiles(t *testing.T) {
	p := profile.Profile{Agent: profile.Agent{
		Unit: "agent.service", EnvFile: "/srv/env", Dir: "/srv/agent/", Binary: "/srv/bin/agent", Record: "/srv/record",
	}}
	vars := verdict.Placeholders(hops.BuiltIn().NewCase(hop.NewSubject(p, "node-1", "", "", ""), diag.Plan{},
		diag.EndedCompleted, nil))
	got, _ := diag.FillCommand("ls {unit} {env_file} {ca_bundle} {cert} {key} {binary} {diag_dir}", vars)
	want := "ls agent.service /srv/env /srv/agent/ca-bundle.crt /srv/agent/cert.pem /srv/agent/key.pem /srv/bin/agent " +
		"/srv/record"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name := range verdict.PlaceholderRows {
		if got, _ := diag.FillCommand("{"+name+"}", vars); got == "{"+name+"}" {
			t.Errorf("no template can name %s", name)
		}
	}
}
