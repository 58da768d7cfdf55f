// Package schema holds the published JSON Schema of a drill's file. It is generated from the types of package chaos; a
// test in internal/schemagen compares the two.
package schema

import _ "embed"

//go:generate go run ../../internal/schemagen scenario chaos-scenario.schema.json

//go:embed chaos-scenario.schema.json
var scenario string

// Scenario is the JSON Schema (draft 2020-12) of chaos.Scenario, as one document.
func Scenario() string { return scenario }
