package main

import (
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/gpuaas/gpuaasctl/chaos"
)

// gameDayID names the schema of game days.
const gameDayID = "urn:gpuaasctl:v1:chaos-book"

// generateGameDay returns the schema of a game day's file.
func generateGameDay() ([]byte, error) {
	r := &jsonschema.Reflector{Anonymous: true, Mapper: func(t reflect.Type) *jsonschema.Schema {
		return scenarioLeaf(t, nil)
	}}
	s := r.Reflect(&chaos.GameDay{})
	s.ID, s.Title = gameDayID, "gpuaasctl game day"
	s.Description = "A game day: several drills, in an order that is drawn from a seed. Durations have a unit."
	return encoded(s)
}
