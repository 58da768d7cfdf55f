// Package schema holds the published JSON Schema of the report. It is generated from the types of package diag; a
// test in tools/schemagen compares the two.
package schema

import _ "embed"

//go:generate go run ../../tools/schemagen report preflight-report.schema.json

//go:embed preflight-report.schema.json
var preflightReport string

// PreflightReport is the JSON Schema (draft 2020-12) of diag.Report, as one document.
func PreflightReport() string { return preflightReport }
