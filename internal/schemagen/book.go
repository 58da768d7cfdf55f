package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/gpuaas/gpuaasctl/chaos"
)

// bookID names the schema of books.
const bookID = "urn:gpuaasctl:v1:chaos-book"

// generateBook is the schema of a book's file.
func generateBook() ([]byte, error) {
	r := &jsonschema.Reflector{Anonymous: true, Mapper: func(t reflect.Type) *jsonschema.Schema {
		return scenarioLeaf(t, nil)
	}}
	s := r.Reflect(&chaos.Book{})
	s.ID, s.Title = bookID, "gpuaasctl drill book"
	s.Description = "A game day: several drills, in an order that is drawn from a seed. Durations have a unit."
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(b, '\n'), nil
}
