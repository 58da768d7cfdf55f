package main

import (
	"io/fs"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	chaosschema "github.com/gpuaas/gpuaasctl/chaos/schema"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

func TestEveryDrillIsValidAndWrongOnesAreNot(t *testing.T) {
	s := compiled(t, scenarioID, chaosschema.Scenario())
	files, err := fs.Glob(scenarios.Files, "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no drills: %v", err)
	}
	valid := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	for _, f := range files {
		text, err := fs.ReadFile(scenarios.Files, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(string(text)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	text, err := fs.ReadFile(scenarios.Files, "api-egress-blocked.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"verdict: drop", "verdict: vanish"}, {"verdict: drop", "verdct: drop"}, {"kind: net-block", "kind: net-blok"},
		{"ttl: 90s", "ttl: 90"}, {"maxNodes: 1", "maxNodes: 0"}, {"green: 2", "green: 1"}, {"residue: none", "residue: some"},
		{"  control:\n", "  contrl:\n"}, {"hop: [node_runtime_api_reachability]", "hop: [node_api]"},
		{"severity: P1", "severity: high"},
	} {
		wrong := strings.Replace(string(text), c[0], c[1], 1)
		if wrong == string(text) {
			t.Errorf("%q is not in the file", c[0])
		} else if valid(wrong) == nil {
			t.Errorf("%q is accepted", c[1])
		}
	}
}
