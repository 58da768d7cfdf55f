package main

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// scenarioID names the schema of drills.
const scenarioID = "urn:gpuaasctl:v1:chaos-scenario"

// variable matches a placeholder for a value that is filled in later.
const variable = `^\$\{[a-z_]+\}$`

// generateScenario returns the schema of a drill's file, with the parameters of every kind of fault, so that an editor
// can complete them.
func generateScenario() ([]byte, error) {
	all, words := closedWords(), map[reflect.Type][]any{}
	for _, t := range [...]reflect.Type{reflect.TypeFor[diag.HopID](), reflect.TypeFor[diag.Signal](),
		reflect.TypeFor[diag.Failure]()} {
		words[t] = all[t]
	}
	maps.Copy(words, byType(closed(step.Classes()...)))
	r := &jsonschema.Reflector{Anonymous: true, Mapper: func(t reflect.Type) *jsonschema.Schema {
		return scenarioLeaf(t, words)
	}}
	s := r.Reflect(&chaos.Scenario{})
	s.ID, s.Title = scenarioID, "gpuaasctl drill"
	s.Description =
		"One thing that is broken on purpose: how, how that is seen, what the chain must say by when, and how it comes " +
			"back. Durations have a unit."
	for t, enum := range words {
		s.Definitions[t.Name()] = oneOf(t, enum)
	}
	fault, ok := s.Definitions["Fault"]
	if !ok {
		return nil, fmt.Errorf("a scenario has no faults")
	}
	kind, _ := fault.Properties.Get("kind")
	for _, k := range chaos.Kinds() {
		kind.Enum = append(kind.Enum, k.Name)
		name := "params of " + k.Name
		params := r.Reflect(k.Params())
		body := params
		if ref := strings.TrimPrefix(params.Ref, refTo); ref != "" {
			body = params.Definitions[ref]
			delete(params.Definitions, ref)
		}
		maps.Copy(s.Definitions, params.Definitions)
		body.Version, body.ID, body.Title, body.Description = "", "", k.Title, k.About
		s.Definitions[name] = body
		when, then := jsonschema.NewProperties(), jsonschema.NewProperties()
		when.Set("kind", &jsonschema.Schema{Const: k.Name})
		then.Set("params", &jsonschema.Schema{Ref: refTo + name})
		fault.AllOf = append(fault.AllOf, &jsonschema.Schema{
			If: &jsonschema.Schema{Properties: when}, Then: &jsonschema.Schema{Properties: then, Required: []string{"params"}},
		})
	}
	return encoded(s)
}

// scenarioLeaf returns the schema of a type with its own form in a file; nil for every other type.
func scenarioLeaf(t reflect.Type, words map[reflect.Type][]any) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[chaos.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`}
	case reflect.TypeFor[chaos.Params]():
		return &jsonschema.Schema{Type: "object"}
	case reflect.TypeFor[chaos.StayGreen]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Const: "was-green"},
			{Type: "array", Items: &jsonschema.Schema{Ref: refTo + "HopID"}}}}
	case reflect.TypeFor[chaos.Blame]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Const: "none"}, {Ref: "#/$defs/Finding"}}}
	case reflect.TypeFor[uint16]():
		return &jsonschema.Schema{
			OneOf: []*jsonschema.Schema{{Type: "integer", Minimum: "1", Maximum: "65535"}, {Type: "string", Pattern: variable}},
		}
	}
	return wordOf(t, words, t.Name())
}
