package main

import (
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/gpuaas/gpuaasctl/diag"
)

// schemaID names the schema. It is an identity, not an address to fetch from.
const schemaID = "urn:gpuaasctl:v1:preflight-report"

// generate returns the published schema of diag.Report.
func generate() ([]byte, error) { return published(reportSchema()) }

// reportSchema returns the schema of diag.Report as this version writes it: without other fields or words.
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
	return s, pin(s, []pinned{
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
	})
}

// oneOf returns the schema of a type with these words. Hops may have others, which a profile defines.
func oneOf(t reflect.Type, words []any) *jsonschema.Schema {
	if t == reflect.TypeFor[diag.HopID]() {
		return &jsonschema.Schema{Type: "string", AnyOf: []*jsonschema.Schema{{Enum: words}, {Pattern: diag.OwnHopPattern}}}
	}
	return &jsonschema.Schema{Type: "string", Enum: words}
}

// leaf returns the schema of a type that marshals as one value; nil for every other type.
func leaf(t reflect.Type, words map[reflect.Type][]any) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[diag.Secret]():
		return &jsonschema.Schema{Type: "string", Const: diag.Redacted}
	case reflect.TypeFor[diag.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time",
			Pattern: `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$`}
	case reflect.TypeFor[diag.Millis]():
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	}
	return wordOf(t, words, t.Name())
}

// refTo begins the reference to a definition.
const refTo = "#/$defs/"

// wordOf returns the reference to the definition of a closed type, or nil.
func wordOf(t reflect.Type, words map[reflect.Type][]any, name string) *jsonschema.Schema {
	if _, ok := words[t]; ok {
		return &jsonschema.Schema{Ref: refTo + name}
	}
	return nil
}

// closedWords lists the values of every closed type.
func closedWords() map[reflect.Type][]any {
	return byType(
		closed(diag.Statuses[:]...),
		closed(diag.Failures[:]...),
		closed(diag.HopIDs()...),
		closed(diag.Ops()...),
		closed(diag.ViewAgent, diag.ViewHost),
		closed(diag.LayerManagement, diag.LayerRuntime, diag.LayerEdge),
		closed(diag.UserNormal, diag.UserTemporary, diag.UserRecovery, diag.UserOperator, diag.UserSecurity,
			diag.UserUnknown),
		closed(diag.Confidences[:]...),
		closed(diag.P0, diag.P1, diag.P2),
		closed(diag.UserActions[:]...),
		closed(diag.Points[:]...),
		closed(diag.MarkPass, diag.MarkFail, diag.MarkUnknown),
		closed(diag.SideOperator, diag.SidePlatform, diag.SideEdge, diag.SideNodeWay, diag.SideAgent,
			diag.SideNode, diag.SideWorkload, diag.SideNetwork),
		closed(diag.WSEndClose, diag.WSEndEOF, diag.WSEndReset, diag.WSEndError),
		closed(diag.OutcomePass, diag.OutcomeWarn, diag.OutcomeFail, diag.OutcomeInconclusive),
		closed(diag.EndedCompleted, diag.EndedDeadline, diag.EndedInterrupted, diag.EndedError),
		closedIn(diag.Signals(), func(row diag.SignalRow) diag.Signal { return row.Signal }),
		closedIn(diag.Changes(), func(row diag.ChangeRow) diag.ChangeKind { return row.Kind }),
		closedIn(diag.Reasons(), func(row diag.Reason) diag.ReasonCode { return row.Code }))
}

// wordList is the closed list of a type.
type wordList struct {
	of    reflect.Type
	words []any
}

func closed[T ~string](words ...T) wordList {
	return closedIn(words, func(w T) T { return w })
}

// closedIn returns the list in the rows of a table.
func closedIn[R any, T ~string](rows []R, word func(R) T) wordList {
	l := wordList{of: reflect.TypeFor[T]()}
	for _, r := range rows {
		l.words = append(l.words, string(word(r)))
	}
	return l
}

func byType(lists ...wordList) map[reflect.Type][]any {
	m := map[reflect.Type][]any{}
	for _, l := range lists {
		m[l.of] = append(m[l.of], l.words...)
	}
	return m
}

// pinned is a field of a type, plain in Go, whose values are fixed by the contract.
type pinned struct {
	typ, field string
	words      []any
}

// pin narrows fields to their values.
func pin(s *jsonschema.Schema, all []pinned) error {
	for _, p := range all {
		def, ok := s.Definitions[p.typ]
		if !ok {
			return fmt.Errorf("the schema has no type %s", p.typ)
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
