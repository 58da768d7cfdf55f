package profile

import (
	"strings"
	"testing"
)

// TestKindAndAbsence: what the profile says is not there is checked, and has no defaults.
func TestKindAndAbsence(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"kind: gpuaas":                     "",
		"kind: slurm-node":                 "",
		"kind: slurm":                      "did you mean",
		"agent: {present: false}":          "",
		"agent: {present: true, unit: a}":  "",
		"agent: {present: false, unit: a}": "x.yaml:1: agent.present is false",
		"agent: {present: no agent}":       "x.yaml:1",
		"allocation: {present: false}":     "",
		"allocation: {absent: true}":       "x.yaml:1",
	} {
		p, _, err := parse("x.yaml", []byte(text))
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err == nil && p.Agent.Absent() && p.WithDefaults().Agent.describes() {
			t.Errorf("%q: an absent agent has defaults: %+v", text, p.WithDefaults().Agent)
		}
	}
}
