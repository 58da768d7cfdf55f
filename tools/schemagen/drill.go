package main

import (
	"fmt"
	"maps"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/gpuaas/gpuaasctl/chaos"
	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/chaos/step"
	"github.com/gpuaas/gpuaasctl/diag"
)

// drillID names the schema of the report of drills.
const drillID = "urn:gpuaasctl:v1:drill-report"

// generateDrill returns the published schema of drill.Report.
func generateDrill() ([]byte, error) { return published(drillSchema()) }

// drillSchema returns the schema of drill.Report as this version writes it.
func drillSchema() (*jsonschema.Schema, error) {
	words := drillWords()
	r := &jsonschema.Reflector{
		Anonymous: true, Namer: drillName,
		Mapper: func(t reflect.Type) *jsonschema.Schema { return drillLeaf(t, words) },
	}
	s := r.Reflect(&drill.Report{})
	s.ID, s.Title = drillID, "gpuaasctl drill report"
	s.Description =
		"What came of drills: what was broken on purpose, what the chain said of it and when, and what is left. " +
			"Durations are whole milliseconds, budgets have a unit, times are RFC 3339; what was not measured is absent."
	for t, enum := range words {
		s.Definitions[drillName(t)] = oneOf(t, enum)
	}
	hops, ok := s.Definitions["WalkView"].Properties.Get("hops")
	if !ok {
		return nil, fmt.Errorf("a WalkView has no hops")
	}
	hops.PropertyNames = &jsonschema.Schema{Ref: refTo + "HopID"}
	return s, pin(s, []pinned{
		{"Report", "apiVersion", []any{diag.APIVersion}}, {"Report", "kind", []any{drill.ReportKind}},
	})
}

// drillName gives different names to equally named types of two packages: a machine's are of package step.
func drillName(t reflect.Type) string {
	if t.PkgPath() == reflect.TypeFor[step.Entry]().PkgPath() {
		return "Machine" + t.Name()
	}
	return t.Name()
}

// drillWords lists the values of every closed type in a report.
func drillWords() map[reflect.Type][]any {
	all, words := closedWords(), map[reflect.Type][]any{}
	for _, t := range [...]reflect.Type{
		reflect.TypeFor[diag.Status](), reflect.TypeFor[diag.Failure](), reflect.TypeFor[diag.HopID](),
		reflect.TypeFor[diag.Signal](), reflect.TypeFor[diag.UserState](), reflect.TypeFor[diag.Confidence](),
		reflect.TypeFor[diag.Outcome](), reflect.TypeFor[diag.EndedBy](), reflect.TypeFor[diag.ReasonCode](),
	} {
		words[t] = all[t]
	}
	maps.Copy(words, byType(
		closed(drill.Words()...),
		closed(drill.Held, drill.Violated, drill.NotSeen),
		closed(drill.Before, drill.During, drill.After),
		closed(chaos.RoleNode, chaos.RolePeer, chaos.RolePlatform, ""),
		closed(step.Classes()...),
		closed("", step.Planned, step.Intent, step.Done, step.Verified, step.Reverting, step.Reverted, step.Lost,
			step.Conflict, step.Failed)))
	return words
}

// drillLeaf returns the schema of a type that marshals as one value; nil for every other type.
func drillLeaf(t reflect.Type, words map[reflect.Type][]any) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[chaos.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^(0s|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`}
	case reflect.TypeFor[diag.Time](), reflect.TypeFor[diag.Millis]():
		return leaf(t, nil)
	}
	return wordOf(t, words, drillName(t))
}
