package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
)

// Every golden drill report in the repository is valid, and there is one for each verdict.
func TestEveryGoldenDrillReportIsValid(t *testing.T) {
	s := strict(t, drillSchema)
	missing := map[drill.Word]bool{}
	for _, w := range drill.Words() {
		missing[w] = true
	}
	everyGolden(t, drill.ReportKind, s, func(text []byte) {
		for w := range missing {
			if bytes.Contains(text, []byte(`"verdict": {`+"\n"+`    "word": "`+string(w)+`"`)) {
				delete(missing, w)
			}
		}
	})
	for w := range missing {
		t.Errorf("no golden ends as %s", w)
	}
}

func TestWrongDrillReportsAreNotValid(t *testing.T) {
	s := strict(t, drillSchema)
	text, err := os.ReadFile(filepath.Join("..", "..", "chaos", "render", "testdata", "residue.json"))
	if err != nil {
		t.Fatal(err)
	}
	refuses(t, s, string(text), -1, []wrong{
		{"unknown field", `"tool_version":`, `"toolVersion":`},
		{"unknown verdict", `"word": "residue"`, `"word": "dirty"`},
		{"unknown claim state", `"state": "violated"`, `"state": "broken"`},
		{"unknown machine state", `"state": "reverted"`, `"state": "undone"`},
		{"unknown hop", `"allocation_binding": "pass"`, `"allocation": "pass"`},
		{"unknown status of a hop", `"allocation_binding": "pass"`, `"allocation_binding": "passed"`},
		{"budget without a unit", `"budget": "30s"`, `"budget": "30"`},
		{"duration as text", `"after_ms": 0`, `"after_ms": "0"`},
		{"another kind", `"kind": "DrillReport"`, `"kind": "PreflightReport"`},
		{"a time with a zone", `"started_at": "2026-11-21T09:00:00.000Z"`, `"started_at": "2026-11-21T10:00:00.000+01:00"`},
		{"no claims", `"claims": [`, `"claims": null, "looks_": [`},
		{"unknown role", `"role": "node"`, `"role": "server"`},
		{"unknown class", `"class": "file"`, `"class": "files"`},
	})
}
