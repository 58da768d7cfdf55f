package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	chaosschema "github.com/gpuaas/gpuaasctl/chaos/schema"
)

func TestPublishedDrillSchemaIsTheTypes(t *testing.T) {
	b, err := generateDrill()
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != chaosschema.Report() {
		t.Fatal("chaos/schema/drill-report.schema.json is not what the types say: run `make schema`")
	}
}

// Every report of drills that is kept anywhere in the repository as a golden is valid, and there is one for each verdict.
func TestEveryGoldenDrillReportIsValid(t *testing.T) {
	s := compiled(t, drillID, chaosschema.Report())
	missing := map[drill.Word]bool{}
	for _, w := range drill.Words() {
		missing[w] = true
	}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".json" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(`"`+drill.ReportKind+`"`)) || bytes.Contains(text, []byte(`"$schema"`)) {
			return err
		}
		if why := check(t, s, text); why != "" {
			t.Errorf("%s: %s", path, why)
		}
		for w := range missing {
			if bytes.Contains(text, []byte(`"verdict": {`+"\n"+`    "word": "`+string(w)+`"`)) {
				delete(missing, w)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for w := range missing {
		t.Errorf("no golden ends as %s", w)
	}
}

func TestWrongDrillReportsAreNotValid(t *testing.T) {
	s := compiled(t, drillID, chaosschema.Report())
	text, err := os.ReadFile(filepath.Join("..", "..", "chaos", "render", "testdata", "residue.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, from, to string }{
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
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := strings.ReplaceAll(string(text), c.from, c.to)
			if wrong == string(text) {
				t.Fatalf("%s is not in the sample", c.from)
			}
			if check(t, s, []byte(wrong)) == "" {
				t.Error("is accepted")
			}
		})
	}
}
