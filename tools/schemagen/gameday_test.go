package main

import (
	"io/fs"
	"testing"

	"go.yaml.in/yaml/v3"

	chaosschema "github.com/gpuaas/gpuaasctl/chaos/schema"
	"github.com/gpuaas/gpuaasctl/scenarios"
)

func TestEveryBookIsValidAndWrongOnesAreNot(t *testing.T) {
	s := compiled(t, gameDayID, chaosschema.GameDay())
	texts := map[string]bool{
		"metadata: {id: x, title: x}\ndrills: [a]\npause: 5s\ntimes: 3": true,
		"metadata: {id: x, title: x}\ndrills: []":                       false,
		"metadata: {id: x, title: x}\ndrils: [a]":                       false,
		"metadata: {id: x, title: x}\ndrills: [a]\npause: 5":            false,
		"metadata: {id: x, title: x}\ndrills: [a]\ntimes: 101":          false,
		"metadata: {id: X, title: x}\ndrills: [a]":                      false,
	}
	files, err := fs.Glob(scenarios.Files, "books/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no game days: %v", err)
	}
	for _, f := range files {
		text, err := fs.ReadFile(scenarios.Files, f)
		if err != nil {
			t.Fatal(err)
		}
		texts[string(text)] = true
	}
	for text, valid := range texts {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != valid {
			t.Errorf("%s\nvalid %t, want %t: %v", text, err == nil, valid, err)
		}
	}
}
