package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	drillrender "github.com/gpuaas/gpuaasctl/chaos/render"
	chaosschema "github.com/gpuaas/gpuaasctl/chaos/schema"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/diag/schema"
	v1 "github.com/gpuaas/gpuaasctl/golden/testdata/v1"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// documents returns this version's output for every recording, by name: of walks, or of drills. -short takes a few.
func documents(t *testing.T, drills bool) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	if !drills {
		of := walks(t)
		for _, name := range slices.Sorted(maps.Keys(of)) {
			all[name] = asDocument(t, of[name])
		}
		return all
	}
	files, err := filepath.Glob("drills/*.ndjson")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	for _, name := range some(files) {
		r := drilled(t, name)
		r.Head, r.StartedAt = diag.NewHead(drill.ReportKind), r.Drills[0].StartedAt
		var out bytes.Buffer
		if err := drillrender.Report(&out, r, render.Options{Format: render.JSON}); err != nil {
			t.Fatal(err)
		}
		all[name] = out.Bytes()
	}
	return all
}

// TestReadersOfV1ReadToday: a reader and a schema from the time of v1's compatibility promise accept every document
// that this version writes, and no field that the reader knows is lost or changed.
func TestReadersOfV1ReadToday(t *testing.T) {
	for _, c := range []struct {
		drills bool
		schema string
		reader func() any
	}{
		{false, "preflight-report.schema.json", func() any { return &v1.PreflightReport{} }},
		{true, "drill-report.schema.json", func() any { return &v1.DrillReport{} }},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", "v1", c.schema))
		if err != nil {
			t.Fatal(err)
		}
		s := compiledSchema(t, string(text))
		for name, document := range documents(t, c.drills) {
			if err := s.Validate(decoded(t, document)); err != nil {
				t.Errorf("%s: the schema of v1 refuses it: %v", name, err)
			}
			r := c.reader()
			unknown, err := bounded.Tolerant(document, r, bounded.Document())
			if err != nil {
				t.Errorf("%s: the reader of v1 refuses it: %v", name, err)
				continue
			}
			again, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, lost := range differs("", decoded(t, again), decoded(t, document), unknown) {
				t.Errorf("%s: %s", name, lost)
			}
		}
	}
}

// TestSchemaTakesLaterDocuments: today's schema accepts a document to whose objects a later version added fields.
func TestSchemaTakesLaterDocuments(t *testing.T) {
	for drills, text := range map[bool]string{false: schema.PreflightReport(), true: chaosschema.Report()} {
		s := compiledSchema(t, text)
		names := 0
		for name, document := range documents(t, drills) {
			later := decoded(t, document)
			n := addFields(later)
			if err := s.Validate(later); err != nil {
				t.Errorf("%s with %d more fields: %v", name, n, err)
			}
			if names += n; n < 10 {
				t.Errorf("%s: only %d objects", name, n)
			}
		}
		if names < 500 {
			t.Errorf("only %d objects", names)
		}
	}
}

// valued are the objects whose keys are data: a later version may add keys there, which are not fields.
var valued = []string{"agent_says", "counts", "expected", "extract", "facts", "fields", "header", "hops", "left",
	"policy", "read_model", "redacted", "secrets", "values"}

// addFields adds a field to every object of a document except those whose keys are data, and counts them.
func addFields(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += addFields(e)
		}
	case map[string]any:
		for key, e := range v {
			if _, isMap := e.(map[string]any); !isMap || !slices.Contains(valued, key) {
				n += addFields(e)
			}
		}
		v["x_later"] = map[string]any{"a": []any{"b"}}
		n++
	}
	return n
}

// differs lists where today's document differs from what the reader read; unknown are the fields that the reader does
// not have.
func differs(at string, read, today any, unknown []string) (all []string) {
	switch today := today.(type) {
	case map[string]any:
		read, ok := read.(map[string]any)
		if !ok {
			return []string{at + ": no object is read"}
		}
		for key := range read {
			if _, ok := today[key]; !ok {
				all = append(all, fmt.Sprintf("%s.%s is gone", at, key))
			}
		}
		for key, value := range today {
			path := strings.TrimPrefix(at+"."+key, ".")
			of, ok := read[key]
			switch {
			case ok:
				all = append(all, differs(path, of, value, unknown)...)
			case !slices.Contains(unknown, path):
				all = append(all, path+" is not read")
			}
		}
	case []any:
		read, ok := read.([]any)
		if !ok || len(read) != len(today) {
			return []string{at + ": another number of elements"}
		}
		for i := range today {
			all = append(all, differs(at+"[]", read[i], today[i], unknown)...)
		}
	default:
		if !reflect.DeepEqual(read, today) {
			all = append(all, fmt.Sprintf("%s is read as %v, and is %v", at, read, today))
		}
	}
	return all
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func compiledSchema(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:schema", decoded(t, []byte(text))); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:schema")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
