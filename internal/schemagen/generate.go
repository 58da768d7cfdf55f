package main

import (
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/gpuaas/gpuaasctl/diag"
)

// schemaID names the schema. It is an identity, not an address to fetch from.
const schemaID = "urn:gpuaasctl:v1:preflight-report"

// generate is the published schema of diag.Report.
func generate() ([]byte, error) { return published(reportSchema()) }

// reportSchema is the schema of diag.Report as this version writes it: without other fields or words.
func reportSchema() (*jsonschema.Schema, error) {
	words := closedWords()
	r := &jsonschema.Reflector{
		Anonymous: true,
		Mapper:    func(t reflect.Type) *jsonschema.Schema { return leaf(t, words) },
	}
	s := r.Reflect(&diag.Report{})
	s.ID = schemaID
	s.Title = "gpuaasctl preflight report"
	s.Description = "One walk of the hop chain: what was measured, and what was judged from it. " +
		"Durations are whole milliseconds, times RFC 3339 UTC with milliseconds; what was not measured is absent."
	for t, enum := range words {
		s.Definitions[t.Name()] = oneOf(t, enum)
	}
	return s, pin(s)
}

// oneOf is the schema of a type with these words. Hops have more: a profile can bring some of its own.
func oneOf(t reflect.Type, words []any) *jsonschema.Schema {
	if t == reflect.TypeFor[diag.HopID]() {
		return &jsonschema.Schema{Type: "string", AnyOf: []*jsonschema.Schema{{Enum: words}, {Pattern: diag.OwnHopPattern}}}
	}
	return &jsonschema.Schema{Type: "string", Enum: words}
}

// leaf gives the schema of the types that marshal as one value; nil for every other type.
func leaf(t reflect.Type, words map[reflect.Type][]any) *jsonschema.Schema {
	if _, ok := words[t]; ok {
		return &jsonschema.Schema{Ref: "#/$defs/" + t.Name()}
	}
	switch t {
	case reflect.TypeFor[diag.Secret]():
		return &jsonschema.Schema{Type: "string", Const: diag.Redacted}
	case reflect.TypeFor[diag.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time",
			Pattern: `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$`}
	case reflect.TypeFor[diag.Millis]():
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	}
	return nil
}

// closedWords lists the values of every type whose words are closed.
func closedWords() map[reflect.Type][]any {
	m := map[reflect.Type][]any{}
	closed(m, diag.Statuses[:]...)
	closed(m, diag.Failures[:]...)
	closed(m, diag.HopIDs()...)
	closed(m, diag.Ops()...)
	closed(m, diag.ViewAgent, diag.ViewHost)
	closed(m, diag.LayerManagement, diag.LayerRuntime, diag.LayerEdge)
	closed(m, diag.UserNormal, diag.UserTemporary, diag.UserRecovery, diag.UserOperator, diag.UserSecurity,
		diag.UserUnknown)
	closed(m, diag.Confidences[:]...)
	closed(m, diag.P0, diag.P1, diag.P2)
	closed(m, diag.UserActions[:]...)
	closed(m, diag.Points[:]...)
	closed(m, diag.MarkPass, diag.MarkFail, diag.MarkUnknown)
	closed(m, diag.SideOperator, diag.SidePlatform, diag.SideEdge, diag.SideNodeWay, diag.SideAgent)
	closed(m, diag.WSEndClose, diag.WSEndEOF, diag.WSEndReset, diag.WSEndError)
	closed(m, diag.OutcomePass, diag.OutcomeWarn, diag.OutcomeFail, diag.OutcomeInconclusive)
	closed(m, diag.EndedCompleted, diag.EndedDeadline, diag.EndedInterrupted, diag.EndedError)
	var signals []diag.Signal
	for _, row := range diag.Signals() {
		signals = append(signals, row.Signal)
	}
	closed(m, signals...)
	for _, row := range diag.Changes() {
		closed(m, row.Kind)
	}
	var reasons []diag.ReasonCode
	for _, row := range diag.Reasons() {
		reasons = append(reasons, row.Code)
	}
	closed(m, reasons...)
	return m
}

func closed[T ~string](m map[reflect.Type][]any, words ...T) {
	for _, w := range words {
		m[reflect.TypeFor[T]()] = append(m[reflect.TypeFor[T]()], string(w))
	}
}

// pin narrows plain strings whose values are fixed by the contract.
func pin(s *jsonschema.Schema) error {
	for _, p := range [...]struct {
		typ, field string
		words      []any
	}{
		{"Report", "apiVersion", []any{diag.APIVersion}},
		{"Report", "kind", []any{diag.KindPreflight}},
		{"Dashboard", "node_agent_status",
			[]any{"healthy", "stale", "auth_failed", "api_unreachable", "task_result_failed", "unknown"}},
		{"Dashboard", "terminal_readiness",
			[]any{"token_ready", "browser_ws_ready", "terminal_open_sent", "node_stream_connected", "pty_ready", "failed"}},
		{"HopResult", "vantage", []any{"operator", "node", "operator+node", "operator+platform", ""}},
		{"StepResult", "vantage", []any{"operator", "node", "platform"}},
		{"Fact", "vantage", []any{"operator", "node", "platform"}},
		{"VantageInfo", "id", []any{"operator", "node", "platform"}},
		{"Verdict", "severity", []any{string(diag.P0), string(diag.P1), string(diag.P2)}},
	} {
		def, ok := s.Definitions[p.typ]
		if !ok {
			return fmt.Errorf("the report has no type %s", p.typ)
		}
		field, ok := def.Properties.Get(p.field)
		if !ok {
			return fmt.Errorf("%s has no field %s", p.typ, p.field)
		}
		if len(p.words) == 1 {
			field.Const = p.words[0]
			continue
		}
		field.Enum = p.words
	}
	return nil
}
