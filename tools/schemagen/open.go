package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/invopop/jsonschema"
)

// The promise of docs/contract.md: within v1, documents that programs exchange may gain fields, and growing
// vocabularies may gain words. Their published schemas accept both, so that the schema of an older version accepts a
// newer document. Schemas of files that people write stay strict: there an unknown field is a mistake.

// fixed are the vocabularies that do not grow within v1: a reader may rely on knowing every word.
var fixed = []string{"Status", "Outcome", "EndedBy", "Confidence", "Severity", "UserState", "Mark", "State",
	"Word", "Health"}

// growing matches possible words of later versions, including a hop's vantage that joins two.
const growing = `^[a-z][a-z0-9_+]*$`

// published returns s, encoded, with room for later versions.
func published(s *jsonschema.Schema, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	s.Description += " Later versions add fields, and words where a list has a pattern beside it: a reader ignores " +
		"fields that it does not know."
	widen(s)
	for name, def := range s.Definitions {
		switch {
		case name == "HopResult":
			vantage, _ := def.Properties.Get("vantage")
			grow(vantage)
		case def.Type == "string" && !slices.Contains(fixed, name):
			grow(def)
		}
	}
	return encoded(s)
}

// encoded returns s, indented, with a final newline.
func encoded(s *jsonschema.Schema) ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(b, '\n'), nil
}

// grow allows further words in a list.
func grow(s *jsonschema.Schema) {
	if len(s.Enum) > 0 {
		s.AnyOf, s.Enum = []*jsonschema.Schema{{Enum: s.Enum}}, nil
	}
	if len(s.AnyOf) > 0 {
		s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Pattern: growing})
	}
}

// widen allows further fields in every object of s.
func widen(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.AdditionalProperties == jsonschema.FalseSchema {
		s.AdditionalProperties = nil
	}
	widen(s.AdditionalProperties)
	widen(s.Items)
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		widen(p.Value)
	}
	for _, def := range s.Definitions {
		widen(def)
	}
}
