// Package schema holds the published JSON Schemas of the files of a drill and of a game day, generated from the types
// of package chaos, and of the report of drills, from those of chaos/drill; tests in tools/schemagen compare them.
package schema

import _ "embed"

//go:generate go run ../../tools/schemagen scenario chaos-scenario.schema.json
//go:generate go run ../../tools/schemagen book chaos-book.schema.json
//go:generate go run ../../tools/schemagen drill drill-report.schema.json

//go:embed chaos-scenario.schema.json
var scenario string

//go:embed chaos-book.schema.json
var gameDay string

//go:embed drill-report.schema.json
var report string

// Scenario is the JSON Schema (draft 2020-12) of chaos.Scenario, as one document.
func Scenario() string { return scenario }

// GameDay is the JSON Schema (draft 2020-12) of chaos.GameDay, as one document.
func GameDay() string { return gameDay }

// Report is the JSON Schema (draft 2020-12) of drill.Report, as one document.
func Report() string { return report }
