package main

import (
	"encoding/json"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaasctl/gpu/policy"
	"github.com/gpuaas/gpuaasctl/gpu/policy/schema"
)

// TestPoliciesBySchemaAndByTheirReader: the built-in policies are valid, and schema and reader refuse the same
// mistakes.
func TestPoliciesBySchemaAndByTheirReader(t *testing.T) {
	s := compiled(t, policyID, schema.Policy())
	const rule = "{name: a, condition: gpu.lost, result: UNHEALTHY"
	texts := map[string]bool{
		"version: 1\nrules: [" + rule + "}]":                                       true,
		"version: 1\nrules: [" + rule + ", description: why}]":                     true,
		"version: 1\nrules: [" + rule + ", otherwise: true}]":                      true,
		"version: 1\nrules: [" + rule + ", otherwise: maybe}]":                     false,
		"version: 2\nrules: [" + rule + "}]":                                       false,
		"version: 1\nrules: []":                                                    false,
		"rules: [" + rule + "}]":                                                   false,
		"version: 1\nrules: [" + rule + ", severity: 1}]":                          false,
		"version: 1\nrules: [{name: a, condition: gpu.lost}]":                      false,
		"version: 1\nrules: [{name: a, condition: gpu.lost, result: unhealthy}]":   false,
		"version: 1\nrules: [{name: a b, condition: gpu.lost, result: UNHEALTHY}]": false,
		"version: 1\nrules: [{name: a, condition: '', result: UNHEALTHY}]":         false,
	}
	for _, name := range policy.Builtins() {
		text, _ := policy.BuiltinText(name)
		texts[string(text)] = true
	}
	for text, want := range texts {
		var doc any
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		asJSON, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(asJSON, &value); err != nil {
			t.Fatal(err)
		}
		bySchema := s.Validate(value) == nil
		_, err = policy.Load("p", []byte(text))
		if bySchema != want || (err == nil) != want {
			t.Errorf("%.80s: by the schema %t, by its reader %v; want %t", text, bySchema, err, want)
		}
	}
}
