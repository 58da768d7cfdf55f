// Package schema has the published JSON Schemas of the file of a GPU policy and of a judgement. They are generated from
// the types of package policy; tests in tools/schemagen compare them.
package schema

import _ "embed"

//go:generate go run ../../../tools/schemagen gpu-policy gpu-policy.schema.json
//go:generate go run ../../../tools/schemagen gpu-judgement gpu-judgement.schema.json

//go:embed gpu-policy.schema.json
var policy string

//go:embed gpu-judgement.schema.json
var judgement string

// Policy returns the JSON Schema (draft 2020-12) of a policy's file, as one document.
func Policy() string { return policy }

// Judgement returns the JSON Schema (draft 2020-12) of the output of gpu policy explain, as one document.
func Judgement() string { return judgement }
